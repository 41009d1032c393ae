"""The verbs that study: check, compare, search."""

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from itertools import count
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, NoReturn

import click
from rich.text import Text

from headway.cli.output import console, json_option, next_step, print_json, print_table, warn
from headway.cli.progress import follow_steps
from headway.cli.training import print_sets
from headway.errors import Problem

if TYPE_CHECKING:
    from headway.lab.compare import Entrant, Row

recipe_argument = click.argument("recipe")
settings_argument = click.argument("settings", nargs=-1)
out_option = click.option(
    "--out", type=click.Path(path_type=Path), help="The folder to work in; if it is there, it is continued."
)


@click.command()
@recipe_argument
@settings_argument
@json_option
def check(recipe: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Check a RECIPE before spending an hour on it.

    Do the data, the sizes and the lengths fit, is the first loss ln(classes), can one batch be learned by heart?

    \b
    Example:
      headway check substring model.position=learned data.longer=40
    """
    from headway import recipes
    from headway.lab.check import check as findings_of

    findings = []
    with console.status("checking") if console.is_terminal and not as_json else nullcontext():
        for finding in findings_of(recipes.load(recipe, settings)):
            findings.append(finding)
            if not as_json:
                mark = ("good", "green") if finding.good else ("bad ", "red")
                console.print(Text.assemble(mark, f"  {finding.what}: {finding.detail}"))
    good = all(finding.good for finding in findings)
    if as_json:
        print_json({"good": good, "findings": [asdict(finding) for finding in findings]})
    elif good:
        next_step("headway", "train", recipe, *settings)
    else:
        next_step("headway", "recipes", recipe)
    sys.exit(0 if good else 1)


@click.command()
@recipe_argument
@settings_argument
@click.option("--vary", multiple=True, metavar="KEY=A,B,C", help="A setting and what to try; several multiply.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="How often to train each variant.")
@out_option
@json_option
def compare(
    recipe: str, settings: tuple[str, ...], vary: tuple[str, ...], seeds: int, out: Path | None, as_json: bool
) -> None:
    """Train variants of a RECIPE with several seeds: a table of means with 95 % intervals, and a picture.

    With the same seed, all variants see the same data in the same order.

    \b
    Examples:
      headway compare parity --vary model.norm=pre,post,rezero --seeds 3
      headway compare parity --vary 'model.feedforward=relu,sine(scale=16)' --vary data.uniform=0,0.5
    """
    from headway.lab.compare import entrants, summarise
    from headway.lab.plot import save_curves
    from headway.lab.variants import variants
    from headway.train.files import write_whole

    folder = out or free_folder(f"compare-{Path(recipe).stem}")
    entered = entrants(recipe, settings, variants(vary), seeds, folder)
    for place, entrant in enumerate(entered, start=1):
        outcome = train_entrant(entrant, folder)
        if not as_json:
            console.print(f"{place}/{len(entered)}  {entrant.folder.name}: {outcome}")
    rows = summarise(entered)
    write_whole(folder / "comparison.json", json.dumps([asdict(row) for row in rows], indent=2))
    picture = folder / "comparison.png"
    curves = {row.variant: row.curves for row in rows if row.curves}
    drawn = draw(lambda: save_curves(picture, curves, "step", f"validation {rows[0].score}"))
    if as_json:
        print_json({"folder": str(folder), "rows": [asdict(row) for row in rows]})
        return
    print_comparison(rows)
    console.print("one seed" if seeds == 1 else f"means over {seeds} seeds, with 95 % intervals")
    if drawn:
        console.print(f"curves: {picture}")
    next_step("tensorboard", "--logdir", folder)


def train_entrant(entrant: "Entrant", folder: Path) -> str:
    """Train it to its end, and say what it came to."""
    from headway.train.finite import NotFinite

    session = entrant.session()
    try:
        follow_steps(session, lines=False)
    except NotFinite as problem:
        return f"diverged at step {problem.step:,}"
    if session.interrupted is not None:
        stop(folder, session.interrupted)
    return entrant.in_short()


def print_comparison(rows: "list[Row]") -> None:
    score = rows[0].score
    sets = list(dict.fromkeys(name for row in rows for name in row.scores))
    print_table(
        ["variant", *(f"{name} {score}" for name in sets), "parameters", "seconds"],
        [
            (
                f"{row.variant} ({row.diverged} diverged)" if row.diverged else row.variant,
                *(row.scores[name][score] if name in row.scores else None for name in sets),
                row.parameters,
                None if row.seconds is None else f"{row.seconds.mean:.1f}",
            )
            for row in rows
        ],
    )


def draw(save: Callable[[], None]) -> bool:
    """Whether there is a picture now; without matplotlib there is a note about it."""
    try:
        save()
    except Problem as problem:
        warn(str(problem))
        return False
    return True


@click.command()
@recipe_argument
@settings_argument
@click.option(
    "--goal",
    default="accuracy>0.95",
    show_default=True,
    help="What the worst validation set must reach, and then the worst test set.",
)
@click.option(
    "--least", default="parameters", show_default=True, type=click.Choice(["parameters"]), help="What to save."
)
@click.option("--over", multiple=True, metavar="KEY=LOW..HIGH|A,B", help="A setting to search over, beside the usual.")
@click.option("--trials", default=60, show_default=True, type=click.IntRange(1), help="How many networks to train.")
@out_option
@json_option
def search(
    recipe: str,
    settings: tuple[str, ...],
    goal: str,
    least: str,
    over: tuple[str, ...],
    trials: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find the smallest network that solves a RECIPE's task, and the front of size against score.

    Searched are layers, width, heads, hidden width and learning rate, unless SETTINGS fix them. A search that was
    stopped goes on with the same command and its folder in --out.

    \b
    Example:
      headway search parity data.length=8 --goal 'accuracy>0.95' --least parameters --over model.norm=pre,rezero
    """
    from headway.lab.plot import save_front
    from headway.lab.search import Search

    folder = out or free_folder(f"search-{Path(recipe).stem}")
    study = Search(recipe, settings, goal, over, folder)
    metric = study.goal.metric
    for trial in study.run(trials):
        if not as_json:
            mark = "solved" if trial.solved else ""
            words = " ".join(word.partition(".")[2] for word in trial.words)
            done = len(study.trials())
            console.print(
                f"{done}/{trials}  {trial.parameters:,} parameters  {metric} {trial.score:.4f} {mark}  {words}"
            )
    confirmed = [] if study.interrupted else list(study.confirm())
    if study.interrupted is not None:
        stop(folder, study.interrupted)
    front = study.front()
    points = [(trial.parameters, trial.score) for trial in study.trials()]
    on_front = [(trial.parameters, trial.score) for trial in front]
    drawn = draw(lambda: save_front(folder / "front.png", points, on_front, metric))
    if as_json:
        found = [{**asdict(trial), "test": test, "holds": holds} for trial, test, holds in confirmed]
        print_json({"folder": str(folder), "front": [asdict(trial) for trial in front], "confirmed": found})
        return
    print_table(
        ["parameters", f"validation {metric}", "settings"],
        [(trial.parameters, trial.score, " ".join(trial.words)) for trial in front],
    )
    for trial, test, holds in confirmed:
        verdict = "holds on the test sets" if holds else "does not hold on the test sets"
        console.print(f"{trial.parameters:,} parameters: {goal} {verdict}")
        print_sets(test)
    if drawn:
        console.print(f"front: {folder / 'front.png'}")
    if confirmed and confirmed[-1][2]:
        next_step("headway", "compare", recipe, *settings, *confirmed[-1][0].words, "--seeds", 5)
    else:
        axes = [word for axis in over for word in ("--over", axis)]
        more = ["--goal", goal, *axes, "--trials", 2 * trials, "--out", folder]
        next_step("headway", "search", recipe, *settings, *more)


def free_folder(name: str) -> Path:
    """It is made when the first run is: a mistake leaves none behind."""
    return next(path for number in count(1) if not (path := Path("runs", f"{name}-{number}")).exists())


def stop(folder: Path, signal: Signals) -> NoReturn:
    console.print(f"stopped; the same command with --out {folder} goes on from here")
    sys.exit(128 + signal)


VERBS = [check, compare, search]
