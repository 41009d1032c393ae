"""baseline; and the baselines that other verbs show beside their results."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from headway.cli.options import FILE, settings_argument, trust_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, dim, prints

if TYPE_CHECKING:
    from headway.api.baselines import Baselines, Beside
    from headway.api.run import Run


@click.command()
@click.argument("what", metavar="FILE|RECIPE|RUN")
@settings_argument
@click.option("--data", type=FILE, help="For a RUN: compare on this file instead of its test sets.")
@trust_option
@prints
def baseline(what: str, settings: tuple[str, ...], data: Path | None) -> Output:
    """What simple models reach, trained in seconds on the same split: the least that a network has to beat.

    Labels: the most frequent one, and logistic regression on n-grams. Language models: xz, and n-grams with Kneser-Ney
    smoothing. Translators: the source itself, and a table of words. Reward models: the longer answer, and a weight
    for each word. For a RUN, its network is compared with the best of them on the same test items.

    \b
    Examples:
      headway baseline reviews.csv
      headway baseline sentiment data.name=imdb
      headway baseline novels.txt data.vocab_size=500
      headway baseline translate data.source=train.en data.target=train.de
      headway baseline runs/classify-1
    """
    from headway.api.baselines import baseline as measure

    measured = measure(what, test=data, settings=settings, progress=following())
    return Output({"of": what, **measured.summary()}, blocks(measured))


def blocks(measured: "Baselines") -> Iterator[Block]:
    yield measured.table()
    if measured.network is not None:
        yield verdict(measured)


def verdict(measured: "Baselines") -> Text:
    """Plainly: a network that is not better than a baseline is the first thing to know of it."""
    colour = "green" if measured.network_is_better else "bold yellow"
    return Text.assemble((measured.verdict, colour))


def beside(run: "Run", data: Path | None = None) -> "Beside":
    from headway.api.baselines import baseline_beside

    return baseline_beside(run, test=data, progress=following(brief=True))


def blocks_beside(shown: "Beside") -> Iterator[Block]:
    if shown.note:
        yield dim(shown.note)
    if shown.baselines is not None:
        yield "\nbeside simple models"
        yield from blocks(shown.baselines)


def values_beside(shown: "Beside") -> dict[str, Any]:
    return {} if shown.baselines is None else {"baselines": shown.baselines.summary()}
