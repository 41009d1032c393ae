"""The verbs that study: check, compare, search."""

import json
import shlex
import sys
from dataclasses import asdict
from itertools import count
from pathlib import Path
from signal import Signals
from typing import NoReturn

import click
from rich.text import Text

from headway.cli.output import console, json_option, next_step, note, print_json, print_table
from headway.cli.progress import follow_steps
from headway.cli.training import print_sets
from headway.errors import Problem

recipe_argument = click.argument("recipe")
settings_argument = click.argument("settings", nargs=-1)
out_option = click.option(
    "--out", type=click.Path(path_type=Path), help="The folder to work in; one that is there is gone on with."
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
    for finding in findings_of(recipes.load(recipe, settings)):
        findings.append(finding)
        if not as_json:
            mark = ("good", "green") if finding.good else ("bad ", "red")
            console.print(Text.assemble(mark, f"  {finding.what}: {finding.detail}"))
    good = all(finding.good for finding in findings)
    if as_json:
        print_json({"good": good, "findings": [asdict(finding) for finding in findings]})
    elif good:
        next_step(f"headway train {shlex.join([recipe, *settings])}")
    else:
        next_step(f"headway recipes {recipe}")
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

    folder = out or new_folder(f"compare-{Path(recipe).stem}")
    entered = entrants(recipe, settings, variants(vary), seeds, folder)
    for place, entrant in enumerate(entered, start=1):
        session = entrant.session()
        follow_steps(session, lines=False)
        if session.interrupted is not None:
            stop(folder, session.interrupted)
        if not as_json:
            console.print(f"{place}/{len(entered)}  {entrant.folder.name}: {entrant.in_short()}")
    rows = summarise(entered)
    write_whole(folder / "comparison.json", json.dumps([asdict(row) for row in rows], indent=2))
    if as_json:
        print_json({"folder": str(folder), "rows": [asdict(row) for row in rows]})
        return
    score, sets = rows[0].score, list(rows[0].scores)
    print_table(
        ["variant", *(f"{name} {score}" for name in sets), "parameters", "seconds"],
        [
            (row.variant, *(str(row.scores[name][score]) for name in sets), row.parameters, f"{row.seconds.mean:.1f}")
            for row in rows
        ],
    )
    console.print(f"means over {seeds} seeds, with 95 % intervals")
    try:
        save_curves(folder / "comparison.png", {row.variant: row.curves for row in rows}, "step", f"validation {score}")
        console.print(f"curves: {folder / 'comparison.png'}")
    except Problem as problem:
        note(str(problem))
    next_step(f"tensorboard --logdir {folder}")


@click.command()
@recipe_argument
@settings_argument
@click.option("--goal", default="accuracy>0.95", show_default=True, help="What the worst of the test sets must reach.")
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

    folder = out or new_folder(f"search-{Path(recipe).stem}")
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
    if study.interrupted:
        stop(folder, Signals.SIGINT)
    confirmed = list(study.confirm())
    front = study.front()
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
    try:
        points = [(trial.parameters, trial.score) for trial in study.trials()]
        save_front(folder / "front.png", points, [(trial.parameters, trial.score) for trial in front], metric)
        console.print(f"front: {folder / 'front.png'}")
    except Problem as problem:
        note(str(problem))
    if confirmed and confirmed[-1][2]:
        words = shlex.join([recipe, *settings, *confirmed[-1][0].words])
        next_step(f"headway compare {words} --seeds 5")
    else:
        next_step(f"headway search {shlex.join([recipe, *settings])} --trials {2 * trials} --out {folder}")


def new_folder(name: str) -> Path:
    for number in count(1):
        folder = Path("runs", f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
    raise AssertionError("numbers do not end")


def stop(folder: Path, signal: Signals) -> NoReturn:
    console.print(f"stopped; the same command with --out {folder} goes on from here")
    sys.exit(128 + signal)


VERBS = [check, compare, search]
