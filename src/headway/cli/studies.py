"""The verbs that study: check, search."""

import sys
from contextlib import nullcontext
from dataclasses import asdict
from itertools import count
from pathlib import Path
from signal import Signals
from typing import NoReturn

import click
from rich.text import Text

from headway.cli.output import console, draw, json_option, next_step, print_json, print_table
from headway.cli.training import print_sets

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
    from headway.lab.preflight import check as findings_of

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


VERBS = [check, search]
