"""What a check has found, for the terminal: the message first, in a dozen lines."""

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.learn.exercise import NOT_YET, Grid, Report

BAR = 20  # characters
SIDE = 4  # of a grid in the terminal, if it is wide enough
WIDE = 104  # columns
LEVELS = "▁▂▃▄▅▆▇█"
PRINTED = 3  # lines of what the learner's code has printed


def shown(report: Report) -> Iterator[RenderableType]:
    """Lines that hold stand two in a row, and what does not hold has a line of its own."""
    good = [f"  ok    {each.name}" for each in report.findings if each.ok and not each.value]
    for first in range(0, len(good), 2):
        yield Text("".join(f"{text:<44}" for text in good[first : first + 2]).rstrip(), "green")
    for each in report.findings:
        if each.ok and each.value:
            yield Text(f"  ok    {each.name}: {each.value}", "green")
    for each in report.findings:
        if not each.ok and each.detail == NOT_YET:
            what = "" if each.name == "runs" else f" ({each.name})"
            yield Text(f"  todo  {each.detail}{what}", "yellow")
        elif not each.ok:
            yield Text(f"  FAIL  {each.name}: {each.detail}" if each.detail else f"  FAIL  {each.name}", "bold red")
    for name, curve in report.curves.items():
        yield Text(f"        loss of {name:<13}{sparkline([point[1] for point in curve])}", "cyan")
    if report.grid and report.grid.differs:
        yield grids(report.grid)
    if report.advice:
        yield Text("\n".join(wrap(report.advice, 100, initial_indent="  ", subsequent_indent="  ")), "yellow")
    held = sum(each.ok for each in report.findings)
    if not report.passed and held > 1:
        yield Text(f"  {held} of {len(report.findings)} checks hold", "dim")
    if report.printed.strip():
        lines = report.printed.strip().splitlines()
        yield Text("\n".join(["  your code printed:", *(f"    {line[:100]}" for line in lines[:PRINTED])]), "dim")


def sparkline(values: Sequence[float]) -> str:
    """A curve in one line, from its first to its last value."""
    low, high = min(values), max(values)
    bars = "".join(LEVELS[round((value - low) / ((high - low) or 1.0) * (len(LEVELS) - 1))] for value in values)
    return f"{values[0]:.3f} {bars} {values[-1]:.3f}"


def grids(grid: Grid) -> RenderableType:
    """Yours, the target and the difference, side by side, around the largest difference; colours from blue (low) over
    white to red (high)."""
    side = SIDE if get_terminal_size((WIDE, 0)).columns >= WIDE else SIDE - 1
    first_row, first_column = (max(0, index - side + 1) for index in grid.at)
    yours, target, gaps = (
        [row[first_column : first_column + side] for row in rows[first_row : first_row + side]]
        for rows in (grid.yours, grid.target, grid.difference)
    )
    most = max((abs(value) for rows in (yours, target) for row in rows for value in row), default=1.0)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("  yours", "target", "difference"):
        table.add_column(name)
    table.add_row(*(Group(*coloured(rows, most or 1.0, 2 * (not n))) for n, rows in enumerate((yours, target, gaps))))
    return table


def coloured(rows: Sequence[Sequence[float]], most: float, indent: int = 0) -> list[Text]:
    lines = []
    for row in rows:
        line = Text(" " * indent, no_wrap=True)
        for value in row:
            line.append(f"{value:7.3g}"[:8].rjust(8), colour(value / most))
        lines.append(line)
    return lines


def colour(share: float) -> str:
    """Of a number from -1 to 1."""
    if share != share:
        return "black on yellow"
    share = min(max(share, -1.0), 1.0)
    fade = int(255 * (1 - 0.7 * abs(share)))  # numbers stay readable on it
    red, green, blue = (255, fade, fade) if share > 0 else (fade, fade, 255)
    return f"black on rgb({red},{green},{blue})"


def progress_bar(solved: int, total: int) -> str:
    done = BAR * solved // max(total, 1)
    return f"{solved} of {total} [{'=' * done}{'>' * (done < BAR)}{'.' * (BAR - done - 1)}]"
