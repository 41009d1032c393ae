"""gradients."""

from collections.abc import Iterator
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import OutFile
from headway.cli.render import Block, Chart, Output, prints

if TYPE_CHECKING:
    from headway.api.studies import GradientReach

MOST_COLUMNS = 100


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN|RECIPE...")
@click.option("--length", type=click.IntRange(2), help="Sequence length in tokens; default: the 75th percentile.")
@click.option("--picture", type=OutFile(), default=Path("gradients.png"), show_default=True, help="Picture to write.")
@prints
def gradients(names: tuple[str, ...], length: int | None, picture: Path) -> Output:
    """Measure how far back gradients reach.

    In trained RUNs, or in RECIPEs with their initial weights. Printed is the norm of the derivative of the last state
    with respect to the embedding of the token k positions before it.

    \b
    Example:
      headway gradients runs/reviews-1 reviews --length 20
    """
    from headway.api.studies import gradient_reach

    reach = gradient_reach(names, length=length, picture=picture)
    return Output(reach.norms, report(reach), ["headway", "show", names[0]], reach.picture.notes)


def report(reach: "GradientReach") -> Iterator[Block]:
    top = max(decades(norm) for norms in reach.norms.values() for norm in norms)
    for name, norms in reach.norms.items():
        yield f"{name}: {norms[0]:.3g} at distance 0, {norms[-1]:.3g} at {len(norms) - 1}"
        values = [max(0.0, decades(norm) - top + 12) for norm in norms[:MOST_COLUMNS]]
        yield Chart(values, height=6, top=12, caption="  (a row is two powers of ten)")
    yield from reach.picture.line("curves")


def decades(norm: float) -> float:
    return log10(max(norm, 1e-12))
