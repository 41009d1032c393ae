"""Results for a file of any size, in its order: chunk by chunk, so that work that was stopped goes on where it was.

Chunks are files of their own in a folder beside the result, each complete or not there; at the end they become one.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from headway.config.errors import Problem
from headway.data.files import Progress, silent
from headway.data.storage import new_file, write_whole

SIZE = 2048  # texts of a chunk
ABOUT = "about.json"
Rows = list[dict[str, Any]]
Work = Callable[[Sequence[str]], Rows]


def parquet(parts: Iterable[Path], path: Path) -> None:
    from pyarrow import parquet as arrow

    writer: Any = None
    try:
        for part in parts:
            table = arrow.read_table(part)
            writer = writer or arrow.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def parquet_part(rows: Rows, path: Path) -> None:
    import pyarrow
    from pyarrow import parquet as arrow

    arrow.write_table(pyarrow.Table.from_pylist(rows, schema=schema_of(rows)), path)


def schema_of(rows: Rows) -> Any:
    """The same one for every chunk, also for one in which a column has no values."""
    import pyarrow

    kinds = {str: pyarrow.string(), float: pyarrow.float64(), list: pyarrow.list_(pyarrow.float32())}
    fields = {}
    for name in rows[0]:
        values = (type(row[name]) for row in rows if row[name] is not None)
        fields[name] = kinds[next(values, UNKNOWN[name])]
    return pyarrow.schema(list(fields.items()))


UNKNOWN: dict[str, type] = {"text": str, "label": str, "probability": float, "translation": str, "vector": list}


def json_lines(parts: Iterable[Path], path: Path) -> None:
    with path.open("wb") as file:
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, file)


def json_part(rows: Rows, path: Path) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


FORMATS: dict[str, tuple[Callable[[Rows, Path], None], Callable[[Iterable[Path], Path], None]]] = {
    ".parquet": (parquet_part, parquet),
    ".jsonl": (json_part, json_lines),
}


def process(
    texts: Iterator[str], out: Path, identity: dict[str, Any], work: Work, progress: Progress = silent
) -> tuple[int, int]:
    """Write what ``work`` makes of the texts; returns the number of rows, and how many of them were there already.
    Chunks of work with another ``identity`` are not used."""
    if out.suffix not in FORMATS:
        raise Problem(f"{out} ends in none of {', '.join(FORMATS)}: choose one of them")
    if out.exists():
        raise Problem(f"{out} already exists: choose another name, or remove it")
    write_part, join = FORMATS[out.suffix]
    folder = out.with_name(f".parts-{out.name}")
    try:
        prepare(folder, identity)
        count, reused = 0, 0
        parts: list[Path] = []
        while chunk := list(islice(texts, SIZE)):
            part = folder / f"{len(parts):09d}{out.suffix}"
            if part.exists():
                reused += len(chunk)
            else:
                with new_file(part) as temporary:
                    write_part(work(chunk), temporary)
            parts.append(part)
            count += len(chunk)
            progress(f"{count:,} texts", progress_of(identity, count))
        if not parts:
            raise Problem("there is no text in the file")
        with new_file(out) as temporary:
            join(parts, temporary)
    except OSError as error:
        raise Problem(f"cannot write {out}: {error}") from error
    shutil.rmtree(folder, ignore_errors=True)
    return count, reused


def progress_of(identity: dict[str, Any], count: int) -> float:
    return min(count / identity["texts"], 1.0) if identity.get("texts") else 0.0


def prepare(folder: Path, identity: dict[str, Any]) -> None:
    about = folder / ABOUT
    if folder.is_symlink():
        raise Problem(f"{folder} is a link: remove it")
    key = hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=16).hexdigest()
    if not about.is_file() or about.read_text(encoding="utf-8") != key:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_whole(about, key)


def count_rows(path: Path) -> int | None:
    """Of a Parquet file, which says so; of others, nobody knows before they are read."""
    if path.suffix != ".parquet":
        return None
    from pyarrow import ArrowException
    from pyarrow import parquet as arrow

    try:
        return int(arrow.read_metadata(path).num_rows)
    except (ArrowException, OSError):
        return None
