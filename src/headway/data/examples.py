"""Examples: a text, its label, and what it belongs to, read from the records of a source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.data.files import Progress, silent
from headway.data.readers import DOCUMENT, Format, Record, records

USUAL = {  # what columns are often called, by what they are for
    "text": ("text", "review", "sentence", "content", "comment", "message", "body", "document", "tweet", "title"),
    "label": ("label", "class", "sentiment", "category", "target", "labels", "topic", "y"),
}


@dataclass(frozen=True)
class Example:
    text: str
    label: str
    group: str  # examples of one group stay on one side of a split
    line: int


@dataclass(frozen=True)
class Reading:
    """Which columns are what, and what to do with rows that are none."""

    text: str | None = None  # none: found by its name
    label: str | None = None
    group: str | None = None  # none: equal texts are a group
    has_labels: bool = True
    skip_bad: bool = False
    format: Format = field(default_factory=Format)


@dataclass
class LeftOut:
    """Rows that are no examples, with the line of the first."""

    empty: list[int] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    def take_bad(self, path: Path, line: int, problem: str, skip: bool) -> None:
        if not skip:
            remedy = "mend it, or leave such rows out with data.bad_rows=skip"
            raise Problem(f"{path}, line {line}: {problem}; {remedy}")
        self.bad.append(f"line {line}: {problem}")

    def notes(self, path: Path) -> list[str]:
        found = []
        if self.empty:
            found.append(
                f"{path}: {len(self.empty):,} rows have no text and are left out, the first on line {self.empty[0]}"
            )
        if self.bad:
            found.append(f"{path}: {len(self.bad):,} bad rows are left out, the first on {self.bad[0]}")
        return found


def examples(
    path: Path, reading: Reading, left_out: LeftOut | None = None, progress: Progress = silent
) -> Iterator[Example]:
    """All examples of a source, in their order; what is left out is noted."""
    left_out = LeftOut() if left_out is None else left_out
    columns: dict[str, str] | None = None
    empty = True
    for record in records(path, reading.format, progress):
        empty = False
        if columns is None and record.fields:
            columns = find_columns(record, reading, path)
        problem = record.problem or missing(record, columns or {}, reading)
        if problem:
            left_out.take_bad(path, record.line, problem, reading.skip_bad)
            continue
        assert columns is not None  # a record without fields has a problem
        text = as_text(record.fields[columns["text"]])
        if not text.strip():
            left_out.empty.append(record.line)
            continue
        label = as_text(record.fields[columns["label"]]).strip() if reading.has_labels else ""
        group = as_text(record.fields[reading.group]) if reading.group else record.fields.get(DOCUMENT, text)
        yield Example(text, label, group, record.line)
    if empty:
        raise Problem(f"{path} is empty: it has no rows")


def plain_texts(path: Path, reading: Reading, progress: Progress = silent) -> Iterator[str]:
    """The texts alone, of every row, in their order; an empty one is empty."""
    reading = replace(reading, has_labels=False, group=None)
    found = records(path, reading.format, progress)
    first = next(found, None)
    if first is None:
        return
    if reading.text not in first.fields:  # the file may have another shape than the one that was trained on
        reading = replace(reading, text=None)
    column = find_columns(first, reading, path)["text"]
    for record in chain([first], found):
        if record.problem or column not in record.fields:
            raise Problem(f"{path}, line {record.line}: {record.problem or f'there is no {column!r}'}")
        text = as_text(record.fields[column])
        yield text if is_unicode(text) else text.encode("utf-8", "replace").decode()


def find_columns(first: Record, reading: Reading, path: Path) -> dict[str, str]:
    """The columns of texts and labels: those that are named, or else those with a usual name."""
    there = list(first.fields)
    asked = {"text": reading.text, "label": reading.label} if reading.has_labels else {"text": reading.text}
    columns = {use: name or usual_column(use, there, path) for use, name in asked.items()}
    for use, name in {**columns, **({"group": reading.group} if reading.group else {})}.items():
        if name not in there:
            raise BadSetting(f"data.{use}", f"{path} has no column {name!r}; {did_you_mean(name, there)}")
    return columns


def usual_column(use: str, there: Sequence[str], path: Path) -> str:
    lower = {name.lower(): name for name in there}
    found = next((lower[name] for name in USUAL[use] if name in lower), None)
    if found is None:
        names = ", ".join(repr(name[:40]) for name in there)
        raise Problem(f"{path}: which column is the {use}? Its columns are {names}: set data.{use}, or mend the header")
    return found


def missing(record: Record, columns: dict[str, str], reading: Reading) -> str:
    """What an example needs and the record does not have; an empty text is no mistake."""
    for use, name in {**columns, **({"group": reading.group} if reading.group else {})}.items():
        value = record.fields.get(name)
        if isinstance(value, (dict, list)):
            return f"{name!r} is not a text but {type(value).__name__}"
        if not is_unicode(as_text(value)):
            return f"{name!r} has half a character in it"
        if name not in record.fields or (use != "text" and (value is None or not as_text(value).strip())):
            return f"there is no {name!r}"
    return ""


def as_text(value: object) -> str:
    """As one would write it; what is not there (null, NaN) is empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):  # of Parquet
        return value.decode("utf-8", "surrogateescape")
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_unicode(text: str) -> bool:
    """Not so if there is half of a pair of surrogates in it, or a byte that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
