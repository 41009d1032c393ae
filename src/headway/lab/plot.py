"""Pictures, drawn by matplotlib."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headway.config.errors import Problem

Curve = Sequence[tuple[float, float]]


class Picture(NamedTuple):
    path: Path
    problem: str = ""  # why it could not be drawn

    @property
    def notes(self) -> list[str]:
        return [self.problem] if self.problem else []

    def line(self, title: str) -> list[str]:
        """Where it is, if it was drawn."""
        return [] if self.problem else [f"{title}: {self.path}"]


def draw(path: Path, save_picture: Callable[..., None], *content: Any, **options: Any) -> Picture:
    """A picture that is nice to have: a study does not fail because matplotlib is missing."""
    try:
        save_picture(path, *content, **options)
    except Problem as problem:
        return Picture(path, str(problem))
    return Picture(path)


def pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise Problem("pictures need matplotlib: pip install 'headway[plot]'") from None
    matplotlib.use("Agg")  # files only, no screen
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise Problem(f"cannot draw {path}: {error}") from None
    finally:
        pyplot().close(figure)


def save_curves(
    path: Path,
    curves: Mapping[str, Sequence[Curve]],
    x_label: str,
    y_label: str,
    log_y: bool = False,
    log_x: bool = False,  # symmetric logarithm: 0 is on the axis
) -> None:
    """A colour for each name: thin lines for its curves, a thick line for their mean."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(8, 4.5), layout="constrained")
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
    save(figure, path)


def save_front(path: Path, points: Curve, front: Curve, y_label: str) -> None:
    """Sizes and scores of all trials, and a line through the Pareto front."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.scatter(*zip(*points, strict=True), s=16, alpha=0.4)
    axes.step(*zip(*front, strict=True), where="post", color="C1", marker="o")
    axes.set(xlabel="parameters", ylabel=y_label, xscale="log")
    axes.grid(alpha=0.3)
    save(figure, path)


def save_rewards(path: Path, sets: Mapping[str, Mapping[str, Any]]) -> None:
    """A row for each test set of a reward model: the distribution of rewards, and the calibration."""
    plot = pyplot()
    figure, rows = plot.subplots(len(sets), 2, figsize=(11, 4 * len(sets)), layout="constrained", squeeze=False)
    for (name, details), (left, right) in zip(sets.items(), rows, strict=True):
        for side in ("better", "worse"):
            left.stairs(details["rewards"][side], details["rewards"]["borders"], fill=True, alpha=0.5, label=side)
        left.set(xlabel="reward", ylabel="pairs", title=f"{name}: rewards of the better and the worse answer")
        left.legend()
        bins = details["calibration"]
        right.plot([0.5, 1], [0.5, 1], color="grey", linewidth=1)
        right.plot([each["confidence"] for each in bins], [each["accuracy"] for each in bins], marker="o")
        right.set(xlabel="confidence", ylabel="accuracy", title=f"{name}: calibration")
        right.grid(alpha=0.3)
    save(figure, path)
