"""Readers: files and folders of texts as records with named fields.

A reader is a function from a path to records, each with the number of its first line. The file's name tells the
format: ``reviews.csv``, ``reviews.jsonl.xz``; a folder has one subfolder per label.
"""

import csv
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from headway.config.errors import BadSetting, Problem
from headway.data.files import COMPRESSIONS, Progress, format_of, open_bytes, open_text, require_file, silent
from headway.data.json_records import items_of_file, items_of_lines
from headway.text.pieces import last_space

Fields = dict[str, Any]
SEPARATORS = ",;\t|"
NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t"}
LONGEST_FIELD = 1 << 28
AT_ONCE = 1024  # rows of a Parquet file
WHOLE = ("txt", "text", "md", "py", "tokens", "")  # formats that can be read as one text
TAGGED = ("conll", "conllu", "iob", "iob2", "bio")  # formats with a word and its tag in each line; see data/tagged
IGNORED = ("__pycache__", "site-packages", "dist-packages")  # folders
DOCUMENT = "document"  # the field that all pieces of one document share
FILE = "file"  # the field with the path of a text within its folder
UNLABELLED = "unsup"  # the folder of aclImdb whose texts have no label


@dataclass(frozen=True)
class Record:
    """One row of a file; ``problem`` says what is wrong with it."""

    line: int
    fields: Fields
    problem: str = ""


@dataclass(frozen=True)
class Format:
    """How to read a file, as far as its name does not tell."""

    encoding: str = "utf-8"
    separator: str | None = None  # between columns; None: the most frequent one in the first line
    whole: bool = False  # read a file of plain text as one text, and each file in a folder likewise
    files: str = "*"  # with ``whole``: a pattern for the files of a folder
    header: bool = True  # the first line has the names of the columns; otherwise they are called 1, 2, ...
    quotes: bool | None = None  # quotation marks enclose fields; None: unless tabs separate them


def has_header(*columns: str | None) -> bool:
    """Columns that are asked for by their numbers alone are those of a table without a header."""
    named = [column for column in columns if column is not None]
    return not named or not all(column.isdecimal() for column in named)


def delimited(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    """CSV; a quoted field may contain line breaks. Between tabs, quotation marks are part of the text."""
    csv.field_size_limit(LONGEST_FIELD)
    with open_text(path, format.encoding, progress) as file:
        first = file.readline()
        separator = NAMED_SEPARATORS.get(format.separator or "", format.separator)
        if separator is None:
            separator = "\t" if format_of(path) == "tsv" else max(SEPARATORS, key=first.count)
        if len(separator) != 1:
            raise BadSetting("data.separator", f"{separator!r} is neither a single character nor tab")
        quotes = separator != "\t" if format.quotes is None else format.quotes
        style: Any = {
            "delimiter": separator,
            "strict": True,
            "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        }
        reader: Any = csv.reader(chain([first], file), **style)
        line = 1
        try:
            if format.header:
                header = [name.strip() for name in next(reader, [])]
            else:
                header = [str(number) for number, _ in enumerate(next(csv.reader([first], **style), []), 1)]
            refuse_bad_header(header, path)
            while True:
                line = reader.line_num + 1
                row = next(reader, None)
                if row is None:
                    return
                if row:
                    fields = dict.fromkeys(header) | dict(zip(header, row, strict=False))
                    yield Record(line, fields, wrong_columns(row, header, quotes))
        except csv.Error as error:  # a stray quotation mark may be many lines before the one where it shows
            remedy = "; if quotation marks are part of the texts, set data.quotes=false" if quotes else ""
            raise Problem(f"{path}, line {line}: not CSV in the row that begins here: {error}{remedy}") from None


def refuse_bad_header(header: list[str], path: Path) -> None:
    if not any(header):
        raise Problem(f"{path} is empty: its first line should be a header")
    if len(set(header)) < len(header):
        duplicate = next(name for name in header if header.count(name) > 1)
        raise Problem(f"{path}, line 1: two columns are called {duplicate!r}")


def wrong_columns(row: list[str], header: list[str], quotes: bool) -> str:
    if len(row) == len(header):
        return ""
    enclosed = not quotes and any(field.startswith('"') for field in row)
    remedy = "; if quotation marks enclose the fields, set data.quotes=true" if enclosed else ""
    return f"{len(row)} columns, but the first line has {len(header)} ({', '.join(header)}){remedy}"


def json_lines(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    with open_text(path, format.encoding, progress) as file:
        for line, fields, problem in items_of_lines(file):
            yield Record(line, fields, problem)


def json_file(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    with open_text(path, format.encoding, progress) as file:
        for line, fields, problem in items_of_file(file):
            yield Record(line, fields, problem)


def plain_lines(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    """One text per line; a leading ``__label__good``, as in fastText files, is its label."""
    with open_text(path, format.encoding, progress) as file:
        for number, line in enumerate(file, start=1):
            marked = re.match(r"__label__(\S+)\s*(.*)", line, re.DOTALL)
            label, text = marked.groups() if marked else (None, line)
            yield Record(number, {"text": text.rstrip("\r\n"), "label": label})


def parquet(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    """Row numbers start at 1, like lines."""
    from pyarrow import ArrowException
    from pyarrow import parquet as arrow

    with open_bytes(path) as content, TemporaryFile() as unpacked:
        if path.suffix.lower() in COMPRESSIONS:  # the metadata is at the end of the file: reading needs to seek
            shutil.copyfileobj(content, unpacked)
            content = unpacked
        try:
            file = arrow.ParquetFile(content)
            number, rows = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(batch_size=AT_ONCE):
                for fields in batch.to_pylist():
                    number += 1
                    yield Record(number, fields)
                progress(path.name, number / rows)
        except UnicodeDecodeError as error:
            where = f"among the {AT_ONCE:,} rows from row {number + 1:,} on"
            raise Problem(f"{path}, {where}: text that is not UTF-8: {error}; write the file again") from None
        except ArrowException as error:
            raise Problem(f"{path} is not Parquet: {error}") from None


def folder(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    """A folder per label, a file per text. Line n of ``urls_LABEL.txt`` beside them, as in aclImdb, is the address of
    text number n."""
    files = files_of(path)
    urls = {label: read_urls(path / f"urls_{label}.txt") for label in {file.parent.name for file in files}}
    for number, file in enumerate(files, start=1):
        label = file.parent.name
        with open_text(file, format.encoding) as content:
            fields = {"text": content.read(), "label": label, FILE: f"{label}/{file.name}"}
        index = re.match(r"\d+", file.name)
        if urls[label] and index and int(index[0]) < len(urls[label]):
            fields["url"] = urls[label][int(index[0])]
        yield Record(number, fields)
        progress(path.name, number / len(files))


def files_of(path: Path) -> list[Path]:
    """The files in the label folders of a folder, without hidden ones."""
    labels = sorted(each for each in path.iterdir() if each.is_dir() and each.name != UNLABELLED)
    files = [
        file for label in labels for file in sorted(label.iterdir()) if file.is_file() and not file.name.startswith(".")
    ]
    if not files:
        inside = next((each for each in labels if any(deeper.is_dir() for deeper in each.iterdir())), None)
        hint = f"; did you mean {inside}?" if inside else ""
        raise Problem(f"{path} is not a folder of texts: it needs one folder per label with files in it{hint}")
    return files


def url_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("urls_*.txt") if path.is_file())


def read_urls(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def whole_file(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    """One text, split into pieces if it is long; all pieces have the same line number."""
    with open_text(path, format.encoding, progress) as file:
        yield from documents(file, 1)


def whole_folder(path: Path, format: Format, progress: Progress) -> Iterator[Record]:
    """Every file below the folder is a text; a file that cannot be read is a record with a problem."""
    files = texts_of(path, format.files)
    for number, file in enumerate(files, start=1):
        try:
            with open_text(file, format.encoding) as content:
                for piece in documents(content, number):
                    piece.fields[FILE] = str(file.relative_to(path))
                    yield piece
        except Problem as problem:
            yield Record(number, {}, str(problem))
        progress(path.name, number / len(files))


def texts_of(path: Path, names: str) -> list[Path]:
    files = sorted(
        file
        for file in path.rglob(names)
        if file.is_file() and not any(part.startswith(".") or part in IGNORED for part in file.relative_to(path).parts)
    )
    if not files:
        raise Problem(f"{path} and its subfolders contain no files {names!r}")
    return files


def documents(file: IO[str], line: int) -> Iterator[Record]:
    """A text, split into pieces if it is long; each piece carries the beginning of its document."""
    beginning = None
    for piece in pieces(file):
        beginning = beginning or piece
        yield Record(line, {"text": piece, DOCUMENT: beginning})


def pieces(file: IO[str], size: int = 1 << 16) -> Iterator[str]:
    """Split a text before single spaces or line breaks, where a split does not change how it is tokenized."""
    rest: list[str] = []  # since the last split
    before = ""  # the last character that was read: a space may follow it
    while more := file.read(size):
        cut = last_space(before + more, len(before))
        if cut is None:
            rest.append(more)
        else:
            yield "".join([*rest, more[: cut - len(before)]])
            rest = [more[cut - len(before) :]]
        before = more[-1]
    if rest:
        yield "".join(rest)


SOURCES: dict[str, Callable[[Path, Format, Progress], Iterator[Record]]] = {
    "csv": delimited,
    "tsv": delimited,
    "jsonl": json_lines,
    "ndjson": json_lines,
    "json": json_file,
    "parquet": parquet,
    "txt": plain_lines,
    "folder": folder,
}


def kind_of(path: Path) -> str:
    return "folder" if path.is_dir() else format_of(path)


def is_whole(path: Path, format: Format) -> bool:
    """Whether each file is one text, instead of each row or line."""
    return format.whole and kind_of(path) in (*WHOLE, "folder")


def records(path: Path, format: Format, progress: Progress = silent) -> Iterator[Record]:
    """All records of a file or folder, in order."""
    require_file(path, or_folder=True)
    kind = kind_of(path)
    if kind in TAGGED:
        raise Problem(f"{path} has a tag for each word: learn them with headway train tag data.train={path}")
    if is_whole(path, format):
        yield from (whole_folder if kind == "folder" else whole_file)(path, format, progress)
        return
    if kind not in SOURCES:
        known = ", ".join(f".{name}" for name in SOURCES if name != "folder")
        raise Problem(
            f"{path}: unknown format; known are {known}, each also compressed ({', '.join(COMPRESSIONS)}), and folders"
        )
    yield from SOURCES[kind](path, format, progress)


def checksum(paths: Sequence[Path], format: Format) -> str:
    """A hash of the content of files, independent of their names and dates."""
    digest = hashlib.blake2b(digest_size=32)
    for path in paths:
        for piece in content_of(path, format):
            digest.update(piece)
    return digest.hexdigest()


def content_of(path: Path, format: Format) -> Iterator[bytes]:
    """The bytes of a file, or of all files that are read of a folder, with their names and sizes."""
    if path.is_dir():
        files = texts_of(path, format.files) if format.whole else [*files_of(path), *url_files(path)]
    else:
        files = [path]
    for file in files:
        if path.is_dir():
            yield f"{file.relative_to(path)} {file.stat().st_size}\n".encode()
        with file.open("rb") as content:
            while piece := content.read(1 << 20):
                yield piece
