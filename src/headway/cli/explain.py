"""explain."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from headway.cli.options import FILE, run_argument
from headway.cli.render import Block, Output, Table, dim, prints

if TYPE_CHECKING:
    from headway.api.inspection import Explanation


@click.command()
@run_argument
@click.argument("text")
@click.option("--html", "page", type=FILE, help="HTML page to write; default: explanation.html in the run.")
@prints
def explain(run: Path, text: str, page: Path | None) -> Output:
    """Show which words of a TEXT mattered for a prediction. In colours, and as an HTML page.

    \b
    Example:
      headway explain runs/reviews-1 "the plot was not dull . i did really enjoy the music ."
    """
    from headway.api.model import load

    explanation = load(run).explain(text)
    page = page or run / "explanation.html"
    explanation.save(page)
    data = {**asdict(explanation), "page": str(page)}
    return Output(data, report(explanation, page), ["headway", "predict", run, text])


def report(explanation: "Explanation", page: Path) -> Iterator[Block]:
    pieces = explanation.pieces
    yield f"{explanation.label} ({explanation.probability:.1%})"
    yield coloured([(each.text, each.gradient) for each in pieces], "gradient")
    yield dim("gradient x input: green is for the label, red against it\n")
    if explanation.attentions:
        yield coloured([(each.text, each.attention) for each in pieces], "attention")
        yield dim("attention weights\n")
    rows = [(each.text, each.gradient, each.attention) for each in pieces if each.gradient is not None]
    rows.sort(key=lambda row: -abs(row[1] or 0))
    yield Table(["token", "gradient x input", "attention"], rows[:10])
    yield f"page: {page}"


def coloured(pieces: Sequence[tuple[str, float | None]], what: str) -> Text:
    top = max((abs(value) for _, value in pieces if value is not None), default=1.0) or 1.0
    line = Text()
    for text, value in pieces:
        line.append(text, "" if value is None else shade(value / top, what))
    return line


def shade(share: float, what: str) -> str:
    """A background that is darker for larger values: green or red, or blue."""
    level = round(160 * abs(share))
    if level < 8:
        return ""
    red, green, blue = (0, 0, level) if what == "attention" else (0, level, 0) if share > 0 else (level, 0, 0)
    return f"white on rgb({red},{green},{blue})"
