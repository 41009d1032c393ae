"""Sources: files and folders of labelled texts, as records with named fields.

Each source is a function from a path to records, each with the line on which it begins. The format follows from the
file's name: ``reviews.csv``, ``reviews.jsonl.xz``; a folder has a folder for each label.
"""

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from headway.config.errors import BadSetting, Problem
from headway.data.files import COMPRESSIONS, Progress, format_of, open_bytes, open_text, silent

Fields = dict[str, Any]
SEPARATORS = ",;\t|"
NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t"}
LONGEST_FIELD = 1 << 28
SINGLE_SPACE = re.compile(r"(?<=\S)\s(?=\S)")
WHOLE = ("txt", "text", "md", "py", "tokens", "")  # kinds of files that are one text
NO_TEXTS = ("__pycache__", "site-packages", "dist-packages")  # folders that are somebody else's
DOCUMENT = "document"  # the field that pieces of one document agree in
UNLABELLED = "unsup"  # the folder of aclImdb whose texts have no label


@dataclass(frozen=True)
class Record:
    """What stands on a line; ``problem`` says what is wrong with it."""

    line: int
    fields: Fields
    problem: str = ""


@dataclass(frozen=True)
class Format:
    """How to read a file, where its name does not tell."""

    encoding: str = "utf-8"
    separator: str | None = None  # of columns; none: the one that the header has most of
    whole: bool = False  # whether a file of plain text is one text, and a folder all files of its kind
    files: str = "*"  # then: the names of a folder's files that are texts
    header: bool = True  # whether the first line of columns has their names; if not, they are called 1, 2, ...


def delimited(path: Path, how: Format, progress: Progress) -> Iterator[Record]:
    """CSV; a quoted field may have line breaks in it. Tabs without a header are what corpora of pairs have: there a
    quotation mark is a quotation mark."""
    csv.field_size_limit(LONGEST_FIELD)
    with open_text(path, how.encoding, progress) as file:
        first = file.readline()
        separator = NAMED_SEPARATORS.get(how.separator or "", how.separator)
        if separator is None:
            separator = "\t" if format_of(path) == "tsv" else max(SEPARATORS, key=first.count)
        if len(separator) != 1:
            raise BadSetting("data.separator", f"{separator!r} is not a single character, nor tab")
        reader: Any = csv.reader(chain([first], file), delimiter=separator, strict=True)
        if not how.header and separator == "\t":
            reader = csv.reader(chain([first], file), delimiter=separator, quoting=csv.QUOTE_NONE)
        try:
            if how.header:
                header = [name.strip() for name in next(reader, [])]
            else:
                header = [str(place + 1) for place in range(len(next(csv.reader([first], delimiter=separator), [])))]
            refuse_bad_header(header, path)
            while True:
                line = reader.line_num + 1
                row = next(reader, None)
                if row is None:
                    return
                if row:
                    fields = dict.fromkeys(header) | dict(zip(header, row, strict=False))
                    yield Record(line, fields, wrong_columns(row, header))
        except csv.Error as error:
            raise Problem(f"{path}, line {reader.line_num}: not CSV: {error}") from None


def refuse_bad_header(header: list[str], path: Path) -> None:
    if not any(header):
        raise Problem(f"{path} is empty: there is no header in its first line")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise Problem(f"{path}, line 1: two columns are called {twice!r}")


def wrong_columns(row: list[str], header: list[str]) -> str:
    if len(row) == len(header):
        return ""
    return f"{len(row)} columns, but the first line has {len(header)} ({', '.join(header)})"


def json_lines(path: Path, how: Format, progress: Progress) -> Iterator[Record]:
    with open_text(path, how.encoding, progress) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield Record(number, {}, f"not a JSON object in one line: {error}")
                continue
            if isinstance(fields, dict):
                yield Record(number, fields)
            else:
                yield Record(number, {}, 'not an object such as {"text": "...", "label": "..."}')


def plain_lines(path: Path, how: Format, progress: Progress) -> Iterator[Record]:
    """A text a line; ``__label__good`` in front of it, as fastText has it, is its label."""
    with open_text(path, how.encoding, progress) as file:
        for number, line in enumerate(file, start=1):
            marked = re.match(r"__label__(\S+)\s*(.*)", line, re.DOTALL)
            label, text = marked.groups() if marked else (None, line)
            yield Record(number, {"text": text.rstrip("\r\n"), "label": label})


def parquet(path: Path, how: Format, progress: Progress) -> Iterator[Record]:
    """Rows are counted as lines are, from 1."""
    from pyarrow import ArrowException
    from pyarrow import parquet as arrow

    with open_bytes(path) as content, TemporaryFile() as unpacked:
        if path.suffix.lower() in COMPRESSIONS:  # its directory stands at the end: it must be possible to jump there
            shutil.copyfileobj(content, unpacked)
            content = unpacked
        try:
            file = arrow.ParquetFile(content)
            number, rows = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(batch_size=1024):
                for fields in batch.to_pylist():
                    number += 1
                    yield Record(number, fields)
                progress(path.name, number / rows)
        except ArrowException as error:
            raise Problem(f"{path} is not Parquet: {error}") from None


def folder(path: Path, how: Format, progress: Progress) -> Iterator[Record]:
    """A folder for each label, a file for each text. A list ``urls_LABEL.txt`` beside them, as aclImdb has it, gives
    the text that is number n the address on its line n."""
    files = files_of(path)
    urls = {label: read_urls(path / f"urls_{label}.txt") for label in {file.parent.name for file in files}}
    for number, file in enumerate(files, start=1):
        label = file.parent.name
        with open_text(file, how.encoding) as content:
            fields = {"text": content.read(), "label": label, "file": f"{label}/{file.name}"}
        place = re.match(r"\d+", file.name)
        if urls[label] and place and int(place[0]) < len(urls[label]):
            fields["url"] = urls[label][int(place[0])]
        yield Record(number, fields)
        progress(path.name, number / len(files))


def files_of(path: Path) -> list[Path]:
    """The texts of a folder with a folder for each label; names that begin with a dot are nobody's texts."""
    labels = sorted(each for each in path.iterdir() if each.is_dir() and each.name != UNLABELLED)
    files = [
        file for label in labels for file in sorted(label.iterdir()) if file.is_file() and not file.name.startswith(".")
    ]
    if not files:
        inside = next((each for each in labels if any(deeper.is_dir() for deeper in each.iterdir())), None)
        hint = f"; did you mean {inside}?" if inside else ""
        raise Problem(f"{path} is no folder of texts: it has no folder for each label with files in it{hint}")
    return files


def read_urls(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def whole_file(path: Path, how: Format, progress: Progress) -> Iterator[Record]:
    """One text, in pieces if it is long: all of them have the same line."""
    with open_text(path, how.encoding, progress) as file:
        yield from documents(file, 1)


def whole_folder(path: Path, how: Format, progress: Progress) -> Iterator[Record]:
    """Each file in it or deeper is a text; files that are none have a problem."""
    files = texts_of(path, how.files)
    for number, file in enumerate(files, start=1):
        try:
            with open_text(file, how.encoding) as content:
                yield from documents(content, number)
        except Problem as problem:
            yield Record(number, {}, str(problem))
        progress(path.name, number / len(files))


def texts_of(path: Path, names: str) -> list[Path]:
    found = sorted(
        file
        for file in path.rglob(names)
        if file.is_file() and not any(part.startswith(".") or part in NO_TEXTS for part in file.relative_to(path).parts)
    )
    if not found:
        raise Problem(f"{path} has no files {names!r} in it, nor in its folders")
    return found


def documents(file: IO[str], line: int) -> Iterator[Record]:
    """A text, in pieces if it is long; each says how the document begins that it belongs to."""
    beginning = None
    for piece in pieces(file):
        beginning = beginning or piece
        yield Record(line, {"text": piece, DOCUMENT: beginning})


def pieces(file: IO[str], size: int = 1 << 16) -> Iterator[str]:
    """A text in pieces that are encoded apart as they would be together: cut before single spaces or line breaks."""
    rest = ""
    while more := file.read(size):
        rest += more
        cut = last_space(rest, len(rest) - len(more))
        if cut is not None:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def last_space(text: str, first: int) -> int | None:
    """Where the last single space stands, not before ``first``: most often near the end, so it is looked for there."""
    for reach in (256, len(text)):
        cuts = [match.start() for match in SINGLE_SPACE.finditer(text, max(first, len(text) - reach))]
        if cuts:
            return cuts[-1]
    return None


SOURCES: dict[str, Callable[[Path, Format, Progress], Iterator[Record]]] = {
    "csv": delimited,
    "tsv": delimited,
    "jsonl": json_lines,
    "ndjson": json_lines,
    "parquet": parquet,
    "txt": plain_lines,
    "folder": folder,
}


def records(path: Path, how: Format, progress: Progress = silent) -> Iterator[Record]:
    """All records of a file or folder, in their order."""
    if not path.exists():
        raise Problem(f"there is no file {path} (seen from {Path.cwd()})")
    kind = "folder" if path.is_dir() else format_of(path)
    if how.whole and kind in (*WHOLE, "folder"):
        yield from (whole_folder if kind == "folder" else whole_file)(path, how, progress)
        return
    if kind not in SOURCES:
        known = ", ".join(f".{name}" for name in SOURCES if name != "folder")
        packed = ", ".join(COMPRESSIONS)
        raise Problem(
            f"{path}: the name does not tell a format; known are {known}, each also with {packed}, and folders"
        )
    yield from SOURCES[kind](path, how, progress)


def checksum(paths: Sequence[Path], how: Format) -> str:
    """Of what is in the files, whatever their names and age."""
    digest = hashlib.blake2b(digest_size=32)
    for path in paths:
        for piece in content_of(path, how):
            digest.update(piece)
    return digest.hexdigest()


def content_of(path: Path, how: Format) -> Iterator[bytes]:
    """The bytes of a file, or of all that is read of a folder, each with its name and its size; for a checksum."""
    if path.is_dir():
        files = texts_of(path, how.files) if how.whole else [*files_of(path), *sorted(path.glob("urls_*.txt"))]
    else:
        files = [path]
    for file in files:
        if path.is_dir():
            yield f"{file.relative_to(path)} {file.stat().st_size}\n".encode()
        with file.open("rb") as content:
            while piece := content.read(1 << 20):
                yield piece
