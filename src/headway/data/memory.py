"""Data from memory: lists, columns, frames and rows become a Parquet file, which is read like any other file.

The file is kept in the cache, named by its content. A run that is trained on it gets a copy in its own folder, so that
it can be resumed and evaluated when the cache is gone; its recipe refers to the copy as ``run:NAME``.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from headway.config.arguments import items
from headway.config.errors import Problem, is_unicode
from headway.config.recipe import Recipe
from headway.data.cache import cache_folder
from headway.data.examples import USUAL_NAMES, usual_column
from headway.data.storage import sha256_of

OWN = "run:"  # prefix of a file in the folder of the run
NAME = re.compile(r"data-[0-9a-f]{16}\.parquet")
ROWS_AT_ONCE = 4096
TEXTS = ("text", "source", "target", "prompt", "answer")  # columns that hold texts, not numbers
HINT = "lists, a dict of columns, a data frame, an Arrow table, or rows as dicts"


def keep(data: Any, columns: Sequence[str], names: Mapping[str, Any] | None = None) -> Path:
    """Write the data to the cache and return the file. ``columns`` are those of a task, in the order in which a tuple
    or a list has them; ``names`` are the names that they have in a frame, where they are not the usual ones."""
    from pyarrow import ArrowException
    from pyarrow import parquet as arrow

    folder = cache_folder() / "memory"
    rows = 0
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as temporary:
            path, writer = Path(temporary) / "data.parquet", None
            for table in tables(data, columns):
                refuse_missing(table, columns, names or {}, rows)
                if writer is None:
                    writer = arrow.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table.cast(writer.schema))
                rows += len(table)
            if writer is None or not rows:
                raise Problem(f"the data are empty: pass {HINT}")
            writer.close()
            return path.replace(folder / f"data-{sha256_of(path)[:16]}.parquet")
    except (ArrowException, ValueError, TypeError) as error:
        if isinstance(error, Problem):
            raise
        reason = " ".join(str(error).split())
        raise Problem(f"the data do not form a table: {reason} (from row {rows} on); pass {HINT}") from None
    except OSError as error:
        raise Problem(f"cannot write the data to {folder}: {error}; set HEADWAY_CACHE to another folder") from None


def tables(data: Any, columns: Sequence[str]) -> Iterator[Any]:
    """The data as Arrow tables, a few thousand rows each."""
    import pyarrow

    if isinstance(data, Mapping) and any(is_table(part) or hasattr(part, "features") for part in data.values()):
        raise Problem(f"the data have parts ({', '.join(map(str, data))}): pass one of them")
    if hasattr(data, "features") and hasattr(data, "__len__"):  # datasets.Dataset, shuffled and filtered as it is
        data = with_label_names(data.with_format("arrow")[:], data.features)
    if is_table(data):
        yield plain_types(data if isinstance(data, pyarrow.Table) else pyarrow.table(data))
        return
    if isinstance(data, tuple) and len(data) == len(columns) > 1:
        data = dict(zip(columns, data, strict=True))
    if isinstance(data, Mapping):
        yield from in_chunks(rows_of_columns({str(name): values for name, values in data.items()}))
        return
    if isinstance(data, str | bytes | Path) or not isinstance(data, Iterable):
        raise Problem(f"{data!r:.80} is not a collection of rows: pass {HINT}")
    yield from in_chunks(rows_of_items(items(data, "the data", "rows"), columns))


def in_chunks(rows: Iterator[dict[str, Any]]) -> Iterator[Any]:
    import pyarrow

    kinds: dict[str, type] = {}  # of the values in each column so far
    for first in count(0, ROWS_AT_ONCE):
        chunk = list(islice(rows, ROWS_AT_ONCE))
        if not chunk:
            return
        for number, row in enumerate(chunk, start=first):
            for name, value in row.items():
                refuse_odd_value(number, name, value, kinds)
        yield pyarrow.Table.from_pylist(chunk)


def refuse_odd_value(number: int, name: str, value: Any, kinds: dict[str, type]) -> None:
    if value is None:
        return
    if isinstance(value, str) and not is_unicode(value):
        raise Problem(f"row {number} has a broken character in {name!r}: it is not Unicode")
    kind = float if isinstance(value, int | float) else str if isinstance(value, str) else type(value)
    usual = kinds.setdefault(name, kind)
    if kind is not usual:
        text = "a text" if usual is str else "a number" if usual is float else f"a {usual.__name__}"
        raise Problem(f"row {number}: {name!r} is {value!r:.60}, but it is {text} in the rows before: pass one type")


def is_table(data: Any) -> bool:
    """Whether it has named columns that Arrow can read: a frame of pandas or polars, or an Arrow table."""
    if isinstance(data, type) or not hasattr(data, "__arrow_c_stream__"):
        return False
    return hasattr(data, "columns") or hasattr(data, "column_names") or hasattr(data, "schema")


def with_label_names(table: Any, features: Mapping[str, Any]) -> Any:
    """The labels of a data set as the names that it has for them."""
    import pyarrow

    for index, column in enumerate(table.column_names):
        feature = features.get(column)
        names = getattr(feature, "names", None)
        if names:
            values = [None if value is None else names[value] for value in table[column].to_pylist()]
            table = table.set_column(index, column, pyarrow.array(values, pyarrow.string()))
        elif names := getattr(getattr(feature, "feature", None), "names", None):  # a list of labels in each row
            rows = [row and [names[value] for value in row] for row in table[column].to_pylist()]
            table = table.set_column(index, column, pyarrow.array(rows, pyarrow.list_(pyarrow.string())))
    return table


def plain_types(table: Any) -> Any:
    """Categories and string views as plain strings: not every version of Parquet has them."""
    import pyarrow
    from pyarrow import types

    is_text = (types.is_dictionary, types.is_large_string, types.is_string_view)
    for index, field in enumerate(table.schema):
        if types.is_dictionary(field.type) and types.is_string_view(field.type.value_type):  # of polars: no cast exists
            values = pyarrow.array(table.column(index).to_pylist(), pyarrow.string())
            table = table.set_column(index, field.name, values)
    fields = [
        field.with_type(pyarrow.string()) if any(check(field.type) for check in is_text) else field
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields)).replace_schema_metadata(None)


def rows_of_columns(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of columns of equal length."""
    lists = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise Problem(f"{name!r} is {values!r:.80}, not a list: pass one value for each row")
        lists[name] = [item(value) for value in items(values, "the data", "rows")]
    sizes = {name: len(values) for name, values in lists.items()}
    if len(set(sizes.values())) > 1:
        counts = " and ".join(f"{size:,} of {name!r}" for name, size in sizes.items())
        raise Problem(f"the columns have different lengths, {counts}: pass one value of each for each row")
    for values in zip(*lists.values(), strict=True):
        yield dict(zip(lists, values, strict=True))


def rows_of_items(items: Iterator[Any], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of texts, of dicts, or of tuples in the order of the columns."""
    first = next(items, None)
    if first is None:
        return
    for number, row in enumerate(chain([first], items)):
        if isinstance(row, Mapping):
            yield {str(name): item(value) for name, value in row.items()}
            continue
        row = row.tolist() if hasattr(row, "tolist") else row  # of an array
        if isinstance(row, str) and len(columns) == 1:
            yield {columns[0]: row}
        elif isinstance(row, tuple | list) and len(row) == len(columns) > 1:
            yield {name: item(value) for name, value in zip(columns, row, strict=True)}
        else:
            wanted = f"a text or a dict with {columns[0]!r}" if len(columns) == 1 else f"({', '.join(columns)})"
            shown = f"{row!r:.80}"
            raise Problem(f"row {number} is {shown}, not {wanted}: pass one such row for each example, or {HINT}")


def item(value: Any) -> Any:
    """A number of numpy or torch as one of Python; NaN is a missing value, and so is that of pandas."""
    if type(value).__name__ == "NAType":
        return None
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    return None if isinstance(value, float) and value != value else value


def refuse_missing(table: Any, columns: Sequence[str], names: Mapping[str, Any], before: int) -> None:
    """Files may have rows without a text, which are skipped; in memory they are a mistake, and so are numbers for
    texts."""
    import pyarrow
    from pyarrow import compute

    for column in columns:
        usual = USUAL_NAMES.get(column, (column,))
        name = names.get(column) or usual_column(usual, table.column_names)
        if name not in table.column_names:
            continue
        values = table[name]
        missing = compute.is_null(values, nan_is_null=pyarrow.types.is_floating(values.type))
        row = compute.index(missing, True).as_py()
        if row >= 0:
            raise Problem(
                f"row {before + row} has no {name!r} (None or NaN): pass a value for each row, or drop the row"
            )
        if pyarrow.types.is_string(values.type):
            row = compute.index(compute.equal(compute.utf8_trim_whitespace(values), ""), True).as_py()
            if row >= 0:
                raise Problem(f"row {before + row} has an empty {name!r}: pass a text for each row, or drop the row")
        elif column in TEXTS and not pyarrow.types.is_nested(values.type):
            raise Problem(f"{name!r} holds values of type {values.type}, not texts: pass strings")


def has_integers(path: Path, column: str) -> bool:
    """Whether these are data from memory with whole numbers in this column."""
    from pyarrow import parquet, types

    if not NAME.fullmatch(path.name):
        return False
    return bool(types.is_integer(parquet.read_schema(path).field(column).type))


# --- files that belong to a run


def own_files(recipe: Recipe, folder: Path | None = None) -> dict[str, Path]:
    """The data settings that name a file from memory, in the cache or in the run's folder, and the files."""
    homes = {cache_folder() / "memory", folder}
    paths = {key: Path(value) for key, value in vars(recipe.data).items() if isinstance(value, str)}
    return {key: path for key, path in paths.items() if NAME.fullmatch(path.name) and path.parent in homes}


def portable(recipe: Recipe, folder: Path | None = None) -> Recipe:
    """The recipe as a run folder has it: its own files are ``run:NAME``."""
    names = {key: OWN + path.name for key, path in own_files(recipe, folder).items()}
    return replace(recipe, data=replace(recipe.data, **names)) if names else recipe


def located(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe of a run folder with the paths of its own files."""
    values = {key: value for key, value in vars(recipe.data).items() if isinstance(value, str)}
    own = {key: str(folder / Path(value[len(OWN) :]).name) for key, value in values.items() if value.startswith(OWN)}
    return replace(recipe, data=replace(recipe.data, **own)) if own else recipe


def copy_own_files(recipe: Recipe, folder: Path) -> None:
    for path in own_files(recipe).values():
        shutil.copyfile(path, folder / path.name)
