"""fill."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import AT_LEAST_1, run_argument
from headway.cli.render import Block, Output, Table, prints

if TYPE_CHECKING:
    from headway.api.model import Candidate
    from headway.metrics.table import Listing


@click.command()
@run_argument
@click.argument("text")
@click.option("--top", default=5, show_default=True, type=AT_LEAST_1, help="Number of candidates per [MASK].")
@prints
def fill(run: Path, text: str, top: int) -> Output:
    """Predict the token at each [MASK] of a TEXT.

    \b
    Example:
      headway fill runs/pretrain-1 "for [MASK] in range(10):"
    """
    from headway.api.model import load

    model = load(run)
    candidates = model.fill(text, top=top)
    data = [[{"piece": piece, "probability": share} for piece, share in mask] for mask in candidates]
    return Output(data, tables(candidates), notes=model.run.notes)


def tables(candidates: "list[Listing[Candidate]]") -> Iterator[Block]:
    for number, mask in enumerate(candidates, start=1):
        if len(candidates) > 1:
            yield f"[MASK] number {number}"
        yield Table(["piece", "probability"], [(repr(piece), share) for piece, share in mask])
