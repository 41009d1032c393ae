"""The confusions of a classifier, as a picture: a row for each true class, a column for each predicted one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.lab.plot import Plot

MOST_CLASSES = 30  # in a picture
CELL = 0.36  # inches


def plot_confusions(reports: Mapping[str, Mapping[str, Any]]) -> Plot:
    """Of several test sets, side by side. Of many classes only those that are confused most often are shown."""
    chosen = {name: most_confused(np.array(each["confusion"])) for name, each in reports.items()}
    size = 2 + CELL * max(map(len, chosen.values()))
    plot = Plot((size * len(reports), size), 1, len(reports))
    for (name, report), axes in zip(reports.items(), plot.axes[0], strict=True):
        draw(axes, name, np.array(report["confusion"]), [each["label"] for each in report["classes"]], chosen[name])
    return plot


def most_confused(counts: np.ndarray) -> np.ndarray:
    """The classes to show. Those that are mistaken for each other stand side by side."""
    wrong = counts - np.diag(np.diag(counts))
    wrong = wrong + wrong.T
    chosen = np.sort(np.argsort(-wrong.sum(axis=0), kind="stable")[:MOST_CLASSES])
    return chosen[side_by_side(wrong[np.ix_(chosen, chosen)])]


def side_by_side(wrong: np.ndarray) -> np.ndarray:
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if not wrong.any():
        return np.arange(len(wrong))
    distances = 1 / (1.0 + wrong)
    np.fill_diagonal(distances, 0)
    return leaves_list(linkage(squareform(distances), "average", optimal_ordering=True))


def draw(axes: Any, name: str, counts: np.ndarray, labels: list[str], chosen: np.ndarray) -> None:
    """Colours are shares of a true class."""
    shown = counts[np.ix_(chosen, chosen)]
    shares = shown / np.maximum(counts[chosen].sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.argwhere(shown):
        colour = "white" if shares[row, column] > 0.6 else "black"
        axes.text(column, row, f"{shown[row, column]:,}", ha="center", va="center", color=colour, fontsize="xx-small")
    names = [labels[index] for index in chosen]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize="x-small")
    axes.set_yticks(range(len(names)), names, fontsize="x-small")
    axes.set(xlabel="predicted", ylabel="true")
    few = f", the {len(chosen)} of {len(counts):,} classes that are confused most" if len(chosen) < len(counts) else ""
    axes.set_title(f"{name}: examples by class{few}", fontsize="small")
