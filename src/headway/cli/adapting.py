"""The verb that compares uses of a pre-trained run: adapt."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.asking import run_argument
from headway.cli.comparing import train_entrant
from headway.cli.output import console, draw, json_option, next_step, print_json, print_table, warn
from headway.cli.progress import bars
from headway.cli.studies import free_folder, out_option, settings_argument
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.lab.adapt import Point, Study


class Numbers(click.ParamType):
    name = "N,N,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        words = [word for word in str(value).split(",") if word.strip()]
        if not all(word.strip().isdigit() for word in words):
            self.fail(f"{value!r} is not a list of whole numbers, such as 8,32,128", param, ctx)
        return tuple(sorted({int(word) for word in words}))


@click.command()
@run_argument
@settings_argument
@click.option("--data", "path", required=True, type=click.Path(path_type=Path), help="Texts with labels.")
@click.option("--test", type=click.Path(path_type=Path), help="Others to test on; left out: a fifth of them.")
@click.option("--examples", default="8,32,128,512", show_default=True, type=Numbers(), help="Labels to train on.")
@click.option("--shots", default="0,1,2,4,8,16,32", show_default=True, type=Numbers(), help="Examples in a prompt.")
@click.option("--tests", default=500, show_default=True, type=click.IntRange(1), help="Texts to try prompts on.")
@click.option("--words", default="", metavar="A,B,...", help="Words for the labels in prompts, in their order.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="How often to draw the examples.")
@out_option
@json_option
def adapt(
    run: Path,
    settings: tuple[str, ...],
    path: Path,
    test: Path | None,
    examples: tuple[int, ...],
    shots: tuple[int, ...],
    tests: int,
    words: str,
    seeds: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """How to use a pre-trained RUN, side by side: fine-tuning, a linear probe, and examples in a prompt, over growing
    numbers of labelled examples. SETTINGS change the recipe adapt.

    \b
    Examples:
      headway adapt runs/pretrain-1 --data reviews.csv
      headway adapt runs/language-1 --data train.jsonl --test test.jsonl --examples 16,256,4096 --words bad,good
    """
    from headway.lab.adapt import Study
    from headway.runs.run import Run

    named = [f"data.train={path}", *([f"data.test={test}"] if test else []), *settings]
    names = tuple(word.strip() for word in words.split(",") if word.strip())
    folder = out or free_folder("adapt")
    points = follow_study(Study(Run(run), tuple(named), examples, shots, seeds, tests, names, folder), quiet=as_json)
    if as_json:
        print_json({"folder": str(folder), "points": [asdict(point) for point in points]})
        return
    next_step("headway", "train", "adapt", f"start={run}", *named)


def follow_study(study: "Study", quiet: bool = False) -> "list[Point]":
    """Try all ways, and show what they came to; a table of numbers and a picture stay in the folder."""
    from headway.lab.adapt import IN_CONTEXT, TUNING, curves, keep, overtaken, table
    from headway.lab.plot import save_curves

    study = fitting(study)
    points = [*prompted(study), *trained(study, quiet)]
    keep(study.folder, points)
    picture = study.folder / "adaptation.png"
    drawn = draw(lambda: save_curves(picture, curves(points), "labelled examples", "accuracy", from_zero=True))
    if quiet:
        return points
    rows = table(points)
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    console.print("accuracy on the test data" + (f", mean over {study.seeds} seeds" if study.seeds > 1 else ""))
    if {TUNING, IN_CONTEXT} <= {point.way for point in points}:
        first = overtaken(points)
        console.print(
            f"fine-tuning is ahead of every prompt from {first:,} examples on"
            if first is not None
            else "no number of examples that was tried brings fine-tuning ahead of prompts"
        )
    if drawn:
        console.print(f"picture: {picture}")
    return points


def fitting(study: "Study") -> "Study":
    """Without the numbers of examples that there are not."""
    there = study.labelled()
    sizes = tuple(size for size in study.sizes if size <= there)
    if study.sizes and not sizes:
        raise Problem(f"--examples: there are {there:,} to train on, fewer than {min(study.sizes):,}: name fewer")
    if len(sizes) < len(study.sizes):
        warn(f"more than {there:,} examples are left out: there are no more to train on")
    return replace(study, sizes=sizes)


def prompted(study: "Study") -> "list[Point]":
    """A run that cannot be asked is still good for the other ways."""
    from headway.lab.in_context import Prompted

    words = study.label_words()
    if not study.shots:
        return []
    try:
        asked = Prompted(study.run, words)
    except Problem as problem:
        if study.names:
            raise
        warn(f"no prompts: {problem}")
        return []
    if max(study.shots) > asked.most:
        warn(f"prompts of more than {asked.most} examples are left out: the model reads {asked.window} tokens")
    with bars() as shown:
        return list(study.prompted(asked, shown))


def trained(study: "Study", quiet: bool) -> "list[Point]":
    from headway.lab.adapt import accuracy_of

    points, entered = [], list(study.entrants())
    for place, (point, entrant) in enumerate(entered, start=1):
        outcome = train_entrant(entrant, study.folder)
        points.append(replace(point, accuracy=accuracy_of(entrant.folder)))
        if not quiet:
            console.print(f"{place}/{len(entered)}  {entrant.folder.name}: {outcome}")
    return points


VERBS = [adapt]
