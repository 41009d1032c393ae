"""The one renderer: a verb returns an Output, which is printed as text or, with ``--json``, as JSON."""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.text import Text

from headway.config.errors import visible
from headway.metrics.table import Table as Table
from headway.metrics.table import metric_table, show_cell
from headway.metrics.terminal import Console

if TYPE_CHECKING:
    from rich import table as rich_table

console = Console()
if not console.is_terminal:
    console = Console(width=160)  # a pipe has no width to fit into

EIGHTHS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Chart:
    """A bar chart of characters; its x-axis goes from 0 to ``end``."""

    values: Sequence[float]
    height: int = 8
    top: float | None = None  # the value of a full column; None: the largest value
    end: int | None = None
    caption: str = ""


@dataclass(frozen=True)
class Stream:
    """Generated text, printed as it arrives, after its prompt in bold."""

    prompt: str
    pieces: Iterable[str]


Block = str | Table | Chart | Stream | RenderableType


@dataclass(frozen=True)
class Output:
    data: Any  # for --json; may be a function that computes it
    blocks: Iterable[Block] = ()  # for the terminal; may be a generator
    next_command: Sequence[object] = ()
    notes: Sequence[str] = ()  # printed on standard error, with --json too
    exit_code: int = 0


def prints(verb: Callable[..., Output]) -> Callable[..., int]:
    """Add ``--json`` to a verb and print its output. With ``--json`` nothing else is written to standard output."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
    @wraps(verb)
    def run(*given: Any, as_json: bool, **options: Any) -> int:
        console.quiet = as_json
        try:
            return render(verb(*given, **options), as_json)
        finally:
            console.quiet = False

    return run


def render(output: Output, as_json: bool = False) -> int:
    for message in output.notes:
        warn(message)
    if as_json:
        data = output.data() if callable(output.data) else output.data
        click.echo(json.dumps(data, indent=2, default=to_json))
        return output.exit_code
    for block in output.blocks:
        print_block(block)
    if output.next_command:
        print_next(*output.next_command)
    return output.exit_code


def to_json(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def print_block(block: Block) -> None:
    if isinstance(block, str):
        echo(block)
    elif isinstance(block, Table):
        console.print(as_rich(block))
    elif isinstance(block, Chart):
        for line in draw_chart(block):
            echo(line)
    elif isinstance(block, Stream):
        echo(block.prompt, bold=True, nl=False)
        for piece in block.pieces:
            echo(piece, nl=False)
        echo("")
    else:
        console.print(block, soft_wrap=not console.is_terminal)


def as_rich(table: Table) -> "rich_table.Table":
    from rich import table as rich_table

    cells = [list(row) for row in table.rows]
    drawn = rich_table.Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(table.columns):
        numbers = all(isinstance(row[index], int | float) for row in cells)
        drawn.add_column(Text(show_cell(column)), justify="right" if numbers else "left")
    for row in cells:
        drawn.add_row(*(Text(show_cell(cell)) for cell in row))
    return drawn


def draw_chart(chart: Chart) -> Iterator[str]:
    width = len(chart.values)
    yield from (f"│{line}" for line in columns(chart.values, chart.height, chart.top))
    yield f"└{'─' * width}{chart.caption}"
    if chart.end is not None:
        yield f" 0{chart.end:>{width - 1},}"


def columns(values: Sequence[float], height: int = 8, top: float | None = None) -> list[str]:
    """Lines of a bar chart, top line first; ``top``, or the largest value, fills the height."""
    top = top or max(max(values), 1e-30)
    filled = [round(8 * height * max(value, 0.0) / top) for value in values]
    return [
        "".join(EIGHTHS[min(max(eighths - 8 * row, 0), 8)] for eighths in filled) for row in reversed(range(height))
    ]


def echo(text: str, err: bool = False, nl: bool = True, bold: bool | None = None) -> None:
    """All that is printed without rich; only JSON is exact, and escapes such characters itself."""
    click.secho(visible(text), err=err, nl=nl, bold=bold)


def short(text: str, limit: int = 100) -> str:
    """One line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def dim(text: str) -> Text:
    return Text(text, "dim")


def note(message: str) -> None:
    console.print(Text.assemble(("note: ", "yellow"), message), soft_wrap=True)


def warn(message: str) -> None:
    """On standard error, so that it is not mixed with the output."""
    echo(f"headway: note: {message}", err=True)


def print_next(*words: object) -> None:
    """The command to run next, quoted for a shell."""
    command = shlex.join(str(word) for word in words)
    console.print(Text.assemble("next: ", (command, "bold")), soft_wrap=True)


def metric_blocks(sets: Mapping[str, Mapping[str, object]]) -> Iterator[Block]:
    """A row for each data set, a column for each metric."""
    yield metric_table(sets)
    if any("bleu" in metrics for metrics in sets.values()):
        from headway.metrics.bleu import signatures

        yield from (dim(f"{name}: {signature}") for name, signature in signatures().items())
