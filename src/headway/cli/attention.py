"""attention."""

from pathlib import Path

import click

from headway.cli.options import AT_LEAST_1, OutFile, run_argument
from headway.cli.render import Output, Table, prints

MOST_TOKENS = 12  # whose strongest keys are listed


@click.command()
@run_argument
@click.argument("text")
@click.option("--layer", type=AT_LEAST_1, help="Layer to draw; default: all.")
@click.option("--picture", type=OutFile(), default=Path("attention.png"), show_default=True, help="Picture to write.")
@prints
def attention(run: Path, text: str, layer: int | None, picture: Path) -> Output:
    """Draw the attention weights of a RUN on a TEXT. A heat map for each layer and head; printed is the token that each
    token attends to most in the last layer, averaged over its heads.

    \b
    Example:
      headway attention runs/reviews-1 "the plot was not dull ." --picture attention.png
    """
    from headway.api.model import load

    maps = load(run).attention(text)
    maps.plot(layer).save(picture)
    last = list(maps.layers.values())[-1].mean(axis=0)  # (queries, keys)
    rows = [
        (token, maps.tokens[int(weights.argmax())], float(weights.max()))
        for token, weights in list(zip(maps.tokens, last, strict=True))[:MOST_TOKENS]
    ]
    data = {"tokens": maps.tokens, "layers": {name: weights.tolist() for name, weights in maps.layers.items()}}
    return Output(data, [Table(["token", "attends most to", "weight"], rows), f"picture: {picture}"])
