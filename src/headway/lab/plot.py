"""Pictures, by matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.config.errors import Problem

Curve = Sequence[tuple[float, float]]


def pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise Problem("pictures need matplotlib: pip install 'headway[plot]'") from None
    matplotlib.use("Agg")  # into files, with no screen
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
    across: str,
    up: str,
    logarithmic: bool = False,
    from_zero: bool = False,  # whether what goes across grows by factors, from 0 on
) -> None:
    """A colour for each name: thin lines for its single curves, a thick one for their mean."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(8, 4.5), layout="constrained")
    for place, (name, group) in enumerate(curves.items()):
        colour = f"C{place % 10}"
        for each in group:
            axes.plot(*zip(*each, strict=True), color=colour, alpha=0.3, linewidth=1)
        shared = list(zip(*group, strict=False))
        steps = [points[0][0] for points in shared]
        means = [sum(value for _, value in points) / len(points) for points in shared]
        axes.plot(steps, means, color=colour, linewidth=2, label=name)
    axes.set(xlabel=across, ylabel=up, yscale="log" if logarithmic else "linear")
    if from_zero:
        axes.set_xscale("symlog", base=2, linthresh=1)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def save_front(path: Path, points: Curve, front: Curve, up: str) -> None:
    """Sizes and scores: all of them, and a line through those that nothing smaller beats."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.scatter(*zip(*points, strict=True), s=16, alpha=0.4)
    axes.step(*zip(*front, strict=True), where="post", color="C1", marker="o")
    axes.set(xlabel="parameters", ylabel=up, xscale="log")
    axes.grid(alpha=0.3)
    save(figure, path)
