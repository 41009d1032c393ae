"""Pictures, drawn by matplotlib."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headway.config.arguments import checked
from headway.config.errors import Problem

Curve = Sequence[tuple[float, float]]


class Plot:
    """A figure of matplotlib, which a notebook shows; made without pyplot, which would choose a screen."""

    def __init__(self, size: tuple[float, float], rows: int = 1, columns: int = 1, **options: Any):
        try:
            import matplotlib  # noqa: F401
            from matplotlib.figure import Figure
        except ImportError:
            raise Problem("pictures need matplotlib: pip install 'headway[plot]'") from None
        self.figure = Figure(figsize=size, layout="constrained")
        self.axes: Any = self.figure.subplots(rows, columns, squeeze=False, **options)  # an array (rows, columns)

    @checked
    def save(self, path: str | Path) -> None:
        """As PNG, SVG or PDF, by the name of the file."""
        try:
            self.figure.savefig(path, dpi=150, bbox_inches="tight")
        except (OSError, ValueError) as error:
            raise Problem(f"cannot draw {path}: {error}") from None

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.figure.savefig(picture, format="png", dpi=100, bbox_inches="tight")
        return picture.getvalue()


class Picture(NamedTuple):
    path: Path
    problem: str = ""  # why it could not be drawn

    @property
    def notes(self) -> list[str]:
        return [self.problem] if self.problem else []

    def line(self, title: str) -> list[str]:
        """Where it is, if it was drawn."""
        return [] if self.problem else [f"{title}: {self.path}"]


def draw(path: Path, plot: Callable[..., Plot], *content: Any, **options: Any) -> Picture:
    """A picture that is nice to have: a study does not fail because matplotlib is missing."""
    try:
        plot(*content, **options).save(path)
    except Problem as problem:
        return Picture(path, str(problem))
    return Picture(path)


def plot_curves(
    curves: Mapping[str, Sequence[Curve]],
    x_label: str,
    y_label: str,
    log_y: bool = False,
    log_x: bool = False,  # symmetric logarithm: 0 is on the axis
) -> Plot:
    """A colour for each name: thin lines for its curves, a thick line for their mean."""
    plot = Plot((8, 4.5))
    axes = plot.axes[0, 0]
    for index, (name, group) in enumerate(curves.items()):
        colour = f"C{index % 10}"
        for curve in group:
            axes.plot(*zip(*curve, strict=True), color=colour, alpha=0.3, linewidth=1)
        shared = list(zip(*group, strict=False))
        steps = [points[0][0] for points in shared]
        means = [sum(value for _, value in points) / len(points) for points in shared]
        axes.plot(steps, means, color=colour, linewidth=2, label=name)
    axes.set(xlabel=x_label, ylabel=y_label, yscale="log" if log_y else "linear")
    if log_x:
        axes.set_xscale("symlog", base=2, linthresh=1)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend()
    return plot


def heatmap(axes: Any, weights: Any, columns: Sequence[str], rows: Sequence[str]) -> None:
    """A weight between 0 and 1 for each row and column; darker is more."""
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()


def plot_front(points: Curve, front: Curve, y_label: str) -> Plot:
    """Sizes and scores of all trials, and a line through the Pareto front."""
    plot = Plot((8, 4.5))
    axes = plot.axes[0, 0]
    axes.scatter(*zip(*points, strict=True), s=16, alpha=0.4)
    axes.step(*zip(*front, strict=True), where="post", color="C1", marker="o")
    axes.set(xlabel="parameters", ylabel=y_label, xscale="log")
    axes.grid(alpha=0.3)
    return plot


def plot_rewards(sets: Mapping[str, Mapping[str, Any]]) -> Plot:
    """A row for each test set of a reward model: the distribution of rewards, and the calibration."""
    plot = Plot((11, 4 * len(sets)), len(sets), 2)
    for (name, details), (left, right) in zip(sets.items(), plot.axes, strict=True):
        for side in ("better", "worse"):
            left.stairs(details["rewards"][side], details["rewards"]["borders"], fill=True, alpha=0.5, label=side)
        left.set(xlabel="reward", ylabel="pairs", title=f"{name}: rewards of the better and the worse answer")
        left.legend()
        bins = details["calibration"]
        right.plot([0.5, 1], [0.5, 1], color="grey", linewidth=1)
        right.plot([each["confidence"] for each in bins], [each["accuracy"] for each in bins], marker="o")
        right.set(xlabel="confidence", ylabel="accuracy", title=f"{name}: calibration")
        right.grid(alpha=0.3)
    return plot
