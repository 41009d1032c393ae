"""Examples: a text, its label and its group, from the records of a file."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from headway.config.errors import BadSetting, Problem, did_you_mean, is_unicode
from headway.data.files import Progress, silent
from headway.data.languages import FILES, Passage, language_of_file
from headway.data.readers import DOCUMENT, FILE, SOURCES, Fields, Format, Record, is_whole, kind_of, records

USUAL_NAMES = {  # of columns, by their use
    "text": ("text", "review", "sentence", "content", "comment", "message", "body", "document", "tweet", "title"),
    "label": (
        *("label", "class", "sentiment", "category", "target", "labels", "topic", "y", "language", "lang"),
        *("rating", "stars", "score", "genre", "intent", "tag"),
    ),
}


LONGEST_NAME = 400  # characters of a column's name, in a message


@dataclass(frozen=True)
class Example:
    text: str
    label: str
    group: str  # examples of one group stay on one side of a split
    line: int
    language: str = ""
    file: str = ""  # its path within the folder that is read


@dataclass(frozen=True)
class Reading:
    """Which columns to read, and what to do with bad rows."""

    text: str | None = None  # None: a column with a usual name
    label: str | None = None
    group: str | None = None  # None: equal texts are a group
    language: str | None = None  # a column, or FILES: each file or folder is a language; None: all texts are of one
    has_labels: bool = True
    skip_bad: bool = False
    normalize: str = ""  # steps after which texts are compared; how they are read does not depend on it
    format: Format = field(default_factory=Format)


@dataclass
class LeftOut:
    """Rows that are skipped: the lines of those without a text, and what is wrong with the bad ones."""

    empty: list[int] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    def take_bad(self, path: Path, line: int, problem: str, skip: bool) -> None:
        if not skip:
            raise Problem(f"{path}, line {line}: {problem}; fix it, or skip such rows with data.bad_rows=skip")
        self.bad.append(f"line {line}: {problem}")

    def notes(self, path: Path) -> list[str]:
        notes = []
        if self.empty:
            notes.append(
                f"{path}: {len(self.empty):,} rows without a text are skipped, the first on line {self.empty[0]}"
            )
        if self.bad:
            notes.append(f"{path}: {len(self.bad):,} bad rows are skipped, the first on {self.bad[0]}")
        return notes


def examples(
    path: Path, reading: Reading, left_out: LeftOut | None = None, progress: Progress = silent
) -> Iterator[Example]:
    """All examples of a file or folder, in order; skipped rows are added to ``left_out``."""
    left_out = LeftOut() if left_out is None else left_out
    is_folder = path.is_dir()
    rows = good_rows(
        records(path, reading.format, progress),
        path,
        lambda first: find_columns(first, reading, path) | other_columns(reading),
        left_out,
        reading.skip_bad,
    )
    for record, columns in rows:
        text = as_text(record.fields[columns["text"]])
        if not text.strip():
            left_out.empty.append(record.line)
            continue
        label = as_text(record.fields[columns["label"]]).strip() if reading.has_labels else ""
        owner = as_text(record.fields[reading.group]) if reading.group else record.fields.get(DOCUMENT, text)
        file = record.fields[FILE] if is_folder else ""
        yield Example(text, label, owner, record.line, language_of(record, reading, path), file)


def passages(path: Path, reading: Reading, left_out: LeftOut, progress: Progress = silent) -> Iterator[Passage]:
    """All texts of a file or folder, each with the line on which it begins; long ones in pieces."""
    is_folder, in_lines = path.is_dir(), path.is_dir() or is_whole(path, reading.format)
    number, line = -1, 1  # of the text, and within it
    for each in examples(path, reading, left_out, progress):
        if not in_lines:
            yield Passage(each.text, each.language, path, each.line)
            continue
        begins = each.line != number
        number, line = each.line, 1 if begins else line
        file = path / each.file if is_folder else path
        yield Passage(each.text, each.language, file, line, begins, has_lines=True)
        line += each.text.count("\n")


def language_of(record: Record, reading: Reading, path: Path) -> str:
    if reading.language is None:
        return ""
    if reading.language == FILES:
        return language_of_file(Path(record.fields[FILE] if path.is_dir() else path.name))
    return as_text(record.fields[reading.language]).strip()


def good_rows(
    records: Iterable[Record],
    path: Path,
    find_columns: Callable[[Record], dict[str, str]],
    left_out: LeftOut,
    skip_bad: bool,
    may_be_empty: Sequence[str] = ("text",),
) -> Iterator[tuple[Record, dict[str, str]]]:
    """Records with their columns by use, which are found in the first record; those with a problem are left out."""
    columns: dict[str, str] = {}
    empty = True
    for record in records:
        empty = False
        if not columns and record.fields:
            columns = find_columns(record)
        problem = record.problem or (
            wrong_with(record.fields, columns, may_be_empty) if columns else "it has no fields"
        )
        if problem:
            left_out.take_bad(path, record.line, problem, skip_bad)
        else:
            yield record, columns
    if empty:
        raise Problem(f"{path} is empty: it has no rows")


def plain_texts(path: Path, reading: Reading, progress: Progress = silent) -> Iterator[str]:
    """The text of every row, in order, empty ones included."""
    reading = replace(reading, has_labels=False, group=None, language=None)
    rows = records(path, reading.format, progress)
    first = next(rows, None)
    if first is None:
        return
    if reading.text not in first.fields:  # the file may have other columns than the training data
        reading = replace(reading, text=None)
    column = find_columns(first, reading, path)["text"]
    for record in chain([first], rows):
        if record.problem or column not in record.fields:
            raise Problem(f"{path}, line {record.line}: {record.problem or f'there is no {column!r}'}")
        text = as_text(record.fields[column])
        yield text if is_unicode(text) else text.encode("utf-8", "replace").decode()


def has_labels(path: Path, reading: Reading) -> bool:
    """Whether a column is said to be the label, or has a usual name and a value in the first row, and is not said to be
    the language; in a folder, whether it has folders."""
    if reading.label is not None:
        return True
    if os.path.isdir(path):  # for names of any length
        return any(each.is_dir() for each in path.iterdir())
    if os.path.isfile(path) and kind_of(path) not in SOURCES:  # a text, or what nobody can read
        return False
    first = next(records(path, reading.format), None)
    column = usual_column(USUAL_NAMES["label"], first.fields) if first is not None else None
    return first is not None and column not in (None, reading.language) and first.fields[column] is not None


def find_columns(first: Record, reading: Reading, path: Path) -> dict[str, str]:
    """The columns of texts and labels: those that are set, or else those with a usual name."""
    names = list(first.fields)
    wanted = {"text": reading.text, "label": reading.label} if reading.has_labels else {"text": reading.text}
    columns = {use: name or guess_column(use, names, path) for use, name in wanted.items()}
    for use, name in {**columns, **other_columns(reading)}.items():
        if name not in names:
            raise BadSetting(f"data.{use}", f"{path} has no column {name!r}; {did_you_mean(name, names)}")
    return columns


def other_columns(reading: Reading) -> dict[str, str]:
    """The columns beside texts and labels, which have no usual names."""
    columns = {"group": reading.group, "language": None if reading.language == FILES else reading.language}
    return {use: name for use, name in columns.items() if name is not None}


def guess_column(use: str, names: Sequence[str], path: Path) -> str:
    column = usual_column(USUAL_NAMES[use], names)
    if column is None:
        remedy = f"set data.{use}, or fix the header; without a header, data.{use}=1 is the first column"
        raise Problem(f"{path}: which column is the {use}? Its columns are {quoted(names)}: {remedy}")
    return column


def usual_column(usual: Sequence[str], names: Iterable[str]) -> str | None:
    """The first of the usual names that a column has, in upper or lower case."""
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in usual if name in lower), None)


def quoted(names: Iterable[str]) -> str:
    """Whole names, which can be copied; a file that is no table has very long ones."""
    return ", ".join(repr(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…") for name in names)


def wrong_with(fields: Fields, columns: Mapping[str, str], may_be_empty: Sequence[str]) -> str:
    """What is wrong with a record of which these columns are read; "": nothing."""
    for use, name in columns.items():
        value = fields.get(name)
        if isinstance(value, (dict, list)):
            return f"{name!r} is not a text but a {type(value).__name__}"
        if not is_unicode(as_text(value)):
            return f"{name!r} is not valid Unicode"
        if name not in fields or (use not in may_be_empty and not as_text(value).strip()):
            return f"there is no {name!r}"
    return ""


def as_text(value: object) -> str:
    """A value as text; missing values (null, NaN) are empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):  # of Parquet
        return value.decode("utf-8", "surrogateescape")
    return str(value).lower() if isinstance(value, bool) else str(value)
