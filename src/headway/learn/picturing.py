"""Pictures of what a check has found: yours, the target and the difference, or the losses of trainings; as PNG, or as a
page of HTML. They are made from the same report that the terminal shows."""

from collections.abc import Sequence
from pathlib import Path

from headway.config.errors import Problem
from headway.lab.plot import Plot
from headway.learn.exercise import Exercise, Finding, Grid, Report
from headway.learn.pages import escaped, page

FORMATS = (".png", ".html")
PANELS = ("yours", "target", "difference")
CELL = 0.42  # inches
MOST_NUMBERS = 8  # columns in which values are written into their cells
WIDE, HIGH = 640, 240  # of a curve in a page


def save_picture(exercise: Exercise, report: Report, path: Path) -> None:
    if not report.grid and not report.curves:
        raise Problem(f"{report.exercise} has nothing to draw: pictures show tensors that were computed, and trainings")
    if path.suffix == ".html":
        path.write_text(html_of(exercise, report), encoding="utf-8")
    else:
        (plot_grid(report.grid) if report.grid else plot_losses(report)).save(path)


def check_name(path: Path | None) -> None:
    """Before the work starts."""
    if path is not None and path.suffix not in FORMATS:
        raise Problem(f"{path}: a picture is drawn as {' or '.join(FORMATS)}")


def panels(grid: Grid) -> list[list[list[float]]]:
    return [grid.yours, grid.target, grid.difference]


def largest_of(grid: Grid) -> float:
    return max((abs(value) for rows in (grid.yours, grid.target) for row in rows for value in row), default=0.0) or 1.0


def plot_grid(grid: Grid) -> Plot:
    """Three heat maps in one scale, blue below 0 and red above; the frame is around the largest difference."""
    rows, columns = len(grid.yours), len(grid.yours[0])
    plot = Plot((3 * max(2.2, CELL * columns + 0.6), max(1.6, CELL * rows + 0.9)), 1, 3)
    most = largest_of(grid)
    for axes, name, values in zip(plot.axes[0], PANELS, panels(grid), strict=True):
        axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most)
        axes.set(title=name, xticks=range(columns), yticks=range(rows))
        if columns <= MOST_NUMBERS:
            for place, row in enumerate(values):
                for column, value in enumerate(row):
                    shade = "white" if abs(value) > 0.7 * most else "black"
                    axes.text(column, place, f"{value:.2g}", ha="center", va="center", color=shade, fontsize=8)
        if grid.differs:
            axes.add_patch(frame(grid))
    plot.figure.suptitle(grid.where, fontsize=9)
    return plot


def frame(grid: Grid) -> object:
    from matplotlib.patches import Rectangle

    row, column = grid.at
    return Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="black", linewidth=2)


def plot_losses(report: Report) -> Plot:
    plot = Plot((7, 4))
    axes = plot.axes[0, 0]
    for name, curve in report.curves.items():
        axes.plot([point[0] for point in curve], [point[1] for point in curve], label=name)
    axes.set(xlabel="step", ylabel="training loss", title=report.exercise)
    axes.grid(alpha=0.3)
    axes.legend()
    return plot


def html_of(exercise: Exercise, report: Report) -> str:
    parts = [f"<ul>{''.join(map(line, report.findings))}</ul>"]
    if report.advice:
        parts.append(f"<p><b>{escaped(report.advice)}</b></p>")
    if report.grid:
        grid, most = report.grid, largest_of(report.grid)
        tables = "".join(
            f"<td><b>{name}</b>{matrix(values, most, grid)}</td>"
            for name, values in zip(PANELS, panels(grid), strict=True)
        )
        parts.append(f"<p>{escaped(grid.where)}</p><table class='panels'><tr>{tables}</tr></table>")
    if report.curves:
        parts.append(svg_of(report))
    return page(f"{report.exercise}: {exercise.title}", "\n".join(parts))


def line(finding: Finding) -> str:
    said = finding.value if finding.ok else finding.detail
    text = f"{finding.name}: {said}" if said else finding.name
    return f"<li class='{'good' if finding.ok else 'bad'}'>{'ok' if finding.ok else 'FAIL'} {escaped(text)}</li>"


def matrix(values: Sequence[Sequence[float]], most: float, grid: Grid) -> str:
    rows = []
    for place, row in enumerate(values):
        cells = (
            f"<td style='background: {shade(value / most)}' "
            f"class='{'at' if grid.differs and (place, column) == grid.at else ''}'>{value:.3g}</td>"
            for column, value in enumerate(row)
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table class='grid'>{''.join(rows)}</table>"


def shade(share: float) -> str:
    """Of a number from -1 to 1: blue, white, red; yellow where it is no number."""
    if share != share:
        return "#ffe000"
    fade = round(255 * (1 - 0.7 * min(abs(share), 1.0)))  # numbers stay readable on it
    red, green, blue = (255, fade, fade) if share > 0 else (fade, fade, 255)
    return f"rgb({red}, {green}, {blue})"


def svg_of(report: Report) -> str:
    """The losses of all runs, in one scale."""
    points = [point for curve in report.curves.values() for point in curve]
    steps, losses = max(point[0] for point in points), [point[1] for point in points]
    low, high = min(losses), max(losses)
    lines, names = [], []
    for number, (name, curve) in enumerate(report.curves.items()):
        hue = round(360 * number / len(report.curves))
        places = " ".join(
            f"{WIDE * step / steps:.1f},{HIGH * (1 - (loss - low) / ((high - low) or 1)):.1f}" for step, loss in curve
        )
        lines.append(f"<polyline points='{places}' fill='none' stroke='hsl({hue}, 70%, 42%)' stroke-width='2'/>")
        names.append(f"<span style='color: hsl({hue}, 70%, 42%)'>{escaped(name)}</span>")
    axis = f"training loss from {high:.3f} down to {low:.3f}, over {steps:g} steps: {', '.join(names)}"
    picture = f"<svg viewBox='-4 -4 {WIDE + 8} {HIGH + 8}' width='100%'>{''.join(lines)}</svg>"
    return f"<p>{axis}</p>{picture}"
