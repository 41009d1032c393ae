"""search."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import AT_LEAST_1, recipe_argument, settings_argument, study_folder_option, trust_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, metric_blocks, prints

if TYPE_CHECKING:
    from headway.api.studies import SearchResult


@click.command()
@recipe_argument
@settings_argument
@click.option(
    "--goal",
    default="accuracy>0.95",
    show_default=True,
    help="Goal for the worst validation set, confirmed on the worst test set.",
)
@click.option("--over", multiple=True, metavar="KEY=LOW..HIGH|A,B", help="Another setting to search over; repeatable.")
@click.option("--trials", default=60, show_default=True, type=AT_LEAST_1, help="Number of networks to train.")
@study_folder_option
@trust_option
@prints
def search(
    recipe: str, settings: tuple[str, ...], goal: str, over: tuple[str, ...], trials: int, out: Path | None
) -> Output:
    """Find the smallest network that solves a RECIPE's task.

    And the Pareto front of size and score. The search is over layers, width, heads, hidden width and learning rate,
    unless SETTINGS fix them. A stopped search continues with the same command and its folder as --out.

    \b
    Example:
      headway search parity data.length=8 --goal 'accuracy>0.95' --over model.norm=pre,rezero
    """
    from headway.api.studies import search as search_networks

    result = search_networks(
        recipe, goal=goal, over=over, trials=trials, settings=settings, out=out, progress=following(brief=True)
    )
    folder = result.folder
    confirmed = [{**vars(each.trial), "test": each.test, "holds": each.holds} for each in result.confirmed]
    if result.confirmed and result.confirmed[-1].holds:
        more = ["headway", "compare", recipe, *settings, *result.confirmed[-1].trial.words, "--seeds", 5]
    else:
        axes = [word for axis in over for word in ("--over", axis)]
        options = ["--goal", goal, *axes, "--trials", 2 * trials, "--out", folder]
        more = ["headway", "search", recipe, *settings, *options]
    values = {"folder": folder, "front": result.front, "confirmed": confirmed}
    return Output(values, report(result, goal), more, result.picture.notes)


def report(result: "SearchResult", goal: str) -> Iterator[Block]:
    yield Table(
        ["parameters", f"validation {result.metric}", "settings"],
        [(trial.parameters, trial.score, " ".join(trial.words)) for trial in result.front],
    )
    for each in result.confirmed:
        verdict = "holds on the test sets" if each.holds else "does not hold on the test sets"
        yield f"{each.trial.parameters:,} parameters: {goal} {verdict}"
        yield from metric_blocks(each.test)
    yield from result.picture.line("front")
