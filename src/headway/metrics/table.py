"""Tables of results: plain data, shown as text by the command line and as HTML by a notebook."""

import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar

from headway.config.errors import visible

T = TypeVar("T")
LONGEST_CELL = 200  # characters, in a notebook


@dataclass(frozen=True)
class Table:
    """Numbers are aligned to the right, text to the left."""

    columns: Sequence[str]
    rows: Iterable[Sequence[object]]

    def __str__(self) -> str:
        """Columns that are aligned by spaces."""
        rows = [list(row) for row in self.rows]
        shown = [
            [show_cell(str(column)) for column in self.columns],
            *([show_cell(cell) for cell in row] for row in rows),
        ]
        widths = [max(len(row[index]) for row in shown) for index in range(len(self.columns))]
        numbers = [all(isinstance(row[index], int | float) for row in rows) for index in range(len(widths))]
        sides = [f">{width}" if is_number else f"<{width}" for width, is_number in zip(widths, numbers, strict=True)]
        lines = ("  ".join(f"{cell:{side}}" for cell, side in zip(row, sides, strict=True)) for row in shown)
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(show_cell(column))}</th>" for column in self.columns)
        rows = "".join(f"<tr>{''.join(html_cell(cell) for cell in row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def html_cell(cell: object) -> str:
    align = "right" if isinstance(cell, int | float) else "left"
    text = show_cell(cell)
    text = text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
    return f'<td style="text-align:{align}">{html.escape(text)}</td>'


def show_cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4f}" if isinstance(cell, float) else visible(str(cell).replace("\n", "\\n"), "")


class Listing(list[T]):
    """A list of results that a notebook shows as a table, with a row for each."""

    def table(self) -> Table:
        rows = [fields_of(each) for each in self]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return Table(columns, [[row.get(name) for name in columns] for row in rows])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def fields_of(row: Any) -> dict[str, Any]:
    """The fields of a dataclass, a named tuple or a dict that fit into a cell."""
    if is_dataclass(row) and not isinstance(row, type):
        fields: Mapping[str, Any] = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    elif isinstance(row, Mapping):
        fields = row
    else:
        fields = row._asdict() if hasattr(row, "_asdict") else {"": row}
    return {name: value for name, value in fields.items() if not isinstance(value, Mapping | list)}


def metric_table(sets: Mapping[str, Mapping[str, object]]) -> Table:
    """A row for each data set, a column for each metric."""
    names = list(dict.fromkeys(name for metrics in sets.values() for name in metrics))
    return Table(["set", *names], [[name, *(metrics.get(each) for each in names)] for name, metrics in sets.items()])


class Metrics(dict[str, dict[str, float]]):
    """Metrics by data set, such as ``metrics["test"]["accuracy"]``; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        return metric_table(self)._repr_html_()
