"""The matrix of a translator's scores: a row for each source language, a column for each target language."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.data.directions import Direction
from headway.lab.plot import Plot
from headway.metrics.languages import ZERO_SHOT, direction_means
from headway.metrics.table import Table

MARK = "*"  # of zero-shot directions, in a table
OUT_OF_100 = ("bleu", "chrf")
CELL = 0.75  # inches, in a picture


@dataclass(frozen=True)
class DirectionMatrix:
    """Scores by direction; directions that were not trained on are zero-shot."""

    title: str  # the test sets that they were measured on
    metric: str  # the one in the cells
    scores: Mapping[Direction, Mapping[str, float]]  # all metrics
    trained: frozenset[Direction]

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(name for direction in self.scores for name in direction))

    @property
    def means(self) -> dict[str, dict[str, float]]:
        """Of all metrics, over the trained and over the zero-shot directions; each direction counts the same."""
        return direction_means(self.scores, self.trained)

    def table(self) -> Table:
        """Zero-shot directions have a star."""
        names = self.languages
        cells = [[self.cell(Direction(source, target)) for target in names] for source in names]
        width = max(len(cell) for row in cells for cell in row)
        rows = [(name, *(cell.rjust(width) for cell in row)) for name, row in zip(names, cells, strict=True)]
        return Table(["from \\ to", *names], rows)

    def mean_table(self) -> Table:
        columns = list(dict.fromkeys(name for row in self.means.values() for name in row))
        return Table(["", *columns], [(name, *map(row.get, columns)) for name, row in self.means.items()])

    def cell(self, direction: Direction) -> str:
        if direction not in self.scores:
            return ""
        return f"{self.shown(direction)}{' ' if direction in self.trained else MARK}"

    def shown(self, direction: Direction) -> str:
        return f"{self.scores[direction][self.metric]:.{1 if self.metric in OUT_OF_100 else 3}f}"

    @property
    def about(self) -> str:
        """What a reader of the table has to know."""
        zero_shot = f"; {MARK} zero-shot" if ZERO_SHOT in self.means else ""
        return f"{self.title}: {self.metric} by direction (rows: from, columns: to{zero_shot})"

    def plot(self) -> Plot:
        """A heat map; trained directions have a frame."""
        return plot_matrices([self])

    def draw(self, axes: Any) -> None:
        from matplotlib.patches import Rectangle

        names = self.languages
        places = {Direction(a, b): (x, y) for y, a in enumerate(names) for x, b in enumerate(names)}
        values = {direction: own[self.metric] for direction, own in self.scores.items()}
        top = max([*values.values(), 1e-9])
        grid = [[values.get(Direction(source, target), float("nan")) for target in names] for source in names]
        axes.imshow(grid, cmap="Blues", vmin=0, vmax=top)
        for direction, value in values.items():
            x, y = places[direction]
            axes.text(
                x, y, self.shown(direction), ha="center", va="center", color="white" if value > 0.6 * top else "black"
            )
            if direction in self.trained:
                axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor="C1", linewidth=2))
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        frames = "\nframed: trained directions; others: zero-shot" if ZERO_SHOT in self.means else ""
        axes.set(xlabel="to", ylabel="from")
        below = {"transform": axes.transAxes, "ha": "center", "va": "top", "fontsize": "small"}
        axes.text(0.5, -0.02, f"{self.metric}, {self.title}{frames}", **below)

    def _repr_html_(self) -> str:
        return f"<p>{self.about}</p>{self.table()._repr_html_()}{self.mean_table()._repr_html_()}"


def plot_matrices(matrices: list[DirectionMatrix]) -> Plot:
    """Side by side."""
    size = 1.5 + CELL * max(len(matrix.languages) for matrix in matrices)
    plot = Plot((size * len(matrices), size), 1, len(matrices))
    for matrix, axes in zip(matrices, plot.axes[0], strict=True):
        matrix.draw(axes)
    return plot


def direction_matrices(reports: Mapping[str, Mapping[str, Any]], metric: str | None = None) -> list[DirectionMatrix]:
    """Of the reports on several test sets, as ``results.json`` has them; sets without a common direction share a
    matrix."""
    matrices: list[DirectionMatrix] = []
    for name, report in reports.items():
        rows = {Direction(row["source"], row["target"]): row for row in report["scores"]}
        trained = frozenset(direction for direction, row in rows.items() if row["trained"])
        scores = {direction: metrics_in(row) for direction, row in rows.items()}
        shared = next((index for index, each in enumerate(matrices) if not scores.keys() & each.scores.keys()), None)
        if shared is None:
            matrices.append(DirectionMatrix(name, metric or report["metric"], scores, trained))
        else:
            own = matrices[shared]
            joined = DirectionMatrix(
                f"{own.title} and {name}", own.metric, {**own.scores, **scores}, own.trained | trained
            )
            matrices[shared] = joined
    return matrices


def metrics_in(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name not in ("source", "target", "trained")}
