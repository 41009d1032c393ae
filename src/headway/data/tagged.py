"""Texts with a tag for each word, from files.

- columns, as in CoNLL: a word in each line, its tag in another column, an empty line after each sentence; a line that
  begins with -DOCSTART- begins a document
- rows of JSON, Parquet or CSV with words and tags: {"tokens": ["In", "Rome"], "tags": ["O", "B-LOC"]}
- rows with a text and spans of characters: {"text": "In Rome", "spans": [{"start": 3, "end": 7, "label": "LOC"}]}
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from headway.config.errors import BadSetting, Problem, did_you_mean, is_unicode
from headway.data.examples import USUAL_NAMES, as_text, quoted, usual_column
from headway.data.files import Progress, format_of, open_text, require_file, silent
from headway.data.readers import SOURCES, TAGGED, Format, Record, kind_of, records
from headway.data.words import WORDS
from headway.metrics.spans import OUTSIDE

COLUMNS = (*TAGGED, "txt", "text", "")  # formats of files in columns
UNIVERSAL = "conllu"  # of Universal Dependencies: ten columns, comments, and lines for more than one word
UNIVERSAL_COLUMNS = (1, 3)  # of words and parts of speech
DOCUMENT_BEGINS, DOCUMENT = "-DOCSTART-", "document"
TOKEN_NAMES = ("tokens", "words", "token", "word")
TAG_NAMES = ("tags", "ner_tags", "labels", "label", "tag", "pos_tags", "upos", "pos", "chunk_tags")
SPAN_NAMES = ("spans", "entities")
BETWEEN = re.compile(r"[ \t]+")


@dataclass(frozen=True)
class TaggedReading:
    text: str | None = None  # a column, by its name or its number from 1; None: detect it
    label: str | None = None
    words: str = "words"  # how a text is split into words
    scheme: str | None = None  # None: detect it
    encoding: str = "utf-8"
    skip_bad: bool = False


class Sentence(NamedTuple):
    """Words and their tags, each with its line; ``problem`` says what is wrong with it."""

    words: Sequence[str]
    tags: Sequence[str]
    lines: Sequence[int]
    document: str = ""
    problem: str = ""


def sentences(path: Path, reading: TaggedReading, progress: Progress = silent) -> Iterator[Sentence]:
    require_file(path)
    if is_columns(path):
        return columns(path, reading, progress)
    if kind_of(path) not in SOURCES:
        known = ", ".join(f".{name}" for name in (*TAGGED, *SOURCES) if name not in ("folder", "txt"))
        raise Problem(f"{path}: unknown format; known are {known}")
    return rows(path, reading, progress)


def is_columns(path: Path) -> bool:
    return format_of(path) in COLUMNS


# --- columns


def columns(path: Path, reading: TaggedReading, progress: Progress) -> Iterator[Sentence]:
    universal = format_of(path) == UNIVERSAL
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    problem, document, width = "", 0, 0
    with open_text(path, reading.encoding, progress) as file:
        for number, line in enumerate(chain(file, [""]), start=1):
            content = line.strip("\r\n \t")
            begins_document = content.startswith(DOCUMENT_BEGINS)
            if not content or begins_document:
                if lines:
                    yield Sentence(words, tags, lines, str(document or ""), problem)
                document += begins_document
                words, tags, lines, problem = [], [], [], ""
                continue
            if problem or (universal and (content.startswith("#") or not content.split("\t")[0].isdecimal())):
                continue
            fields = content.split("\t") if "\t" in content else BETWEEN.split(content)
            if not width:
                width = len(fields)
                places = column_numbers(reading, width, universal, f"{path}, line {number}")
            lines.append(number)
            problem = wrong_with(content, fields, width)
            if problem:
                lines = [number]
                continue
            words.append(fields[places[0]])
            tags.append(fields[places[1]])


def wrong_with(content: str, fields: Sequence[str], width: int) -> str:
    if not is_unicode(content):
        return "it is not valid Unicode"
    if len(fields) != width:
        return f"{len(fields)} column{'s' * (len(fields) != 1)}, but the first line with a word has {width}"
    return "" if all(field.strip() for field in fields) else "a column is empty"


def column_numbers(reading: TaggedReading, width: int, universal: bool, where: str) -> tuple[int, int]:
    """The places of words and tags: the first and the last column, unless they are set."""
    usual = UNIVERSAL_COLUMNS if universal else (0, width - 1)
    if width < 2:
        raise Problem(f"{where}: one column only; it takes a word and its tag in each line, and empty lines between")
    chosen = []
    for key, text, place in zip(("text", "label"), (reading.text, reading.label), usual, strict=True):
        if text is not None and (not text.isdecimal() or not 1 <= int(text) <= width):
            raise BadSetting(
                f"data.{key}", f"{where} has {width} columns: set a number from 1 to {width}, not {text!r}"
            )
        chosen.append(place if text is None else int(text) - 1)
    return chosen[0], chosen[1]


# --- rows


def rows(path: Path, reading: TaggedReading, progress: Progress) -> Iterator[Sentence]:
    names: tuple[str, str] | None = None
    for record in records(path, Format(reading.encoding), progress):
        if record.problem:
            yield Sentence((), (), (record.line,), problem=record.problem)
            continue
        names = names or row_names(record.fields, reading, path)
        yield sentence_of(record, names, reading)


def row_names(fields: Mapping[str, Any], reading: TaggedReading, path: Path) -> tuple[str, str]:
    """The columns of words or a text, and of tags or spans."""
    label = reading.label or usual_column((*TAG_NAMES, *SPAN_NAMES), fields)
    of_text, of_words = USUAL_NAMES["text"], TOKEN_NAMES
    has_spans = label is not None and has_span_values(fields.get(label))
    text = reading.text or usual_column((*of_text, *of_words) if has_spans else (*of_words, *of_text), fields)
    for key, name, example in (("text", text, "tokens"), ("label", label, "tags")):
        if name is None:
            raise Problem(
                f"{path}: which column has the {example}? Its columns are {quoted(fields)}: set data.{key}, or call it "
                f"{example!r}"
            )
        if name not in fields:
            raise BadSetting(f"data.{key}", f"{path} has no column {name!r}; {did_you_mean(name, list(fields))}")
    assert text is not None
    assert label is not None
    return text, label


def has_span_values(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list | dict)


def sentence_of(record: Record, names: tuple[str, str], reading: TaggedReading) -> Sentence:
    text, tags = (record.fields.get(name) for name in names)
    document = as_text(record.fields.get(DOCUMENT))
    try:
        if isinstance(text, str) and isinstance(tags, list) and (not tags or has_span_values(tags)):
            words, tags = with_spans(text, tags, reading.words)
        else:
            words, tags = listed(text, names[0], "word"), listed(tags, names[1], "tag")
            if len(words) != len(tags):
                raise ValueError(f"{len(words):,} words in {names[0]!r}, but {len(tags):,} tags in {names[1]!r}")
        if not words:
            raise ValueError(f"{names[0]!r} is empty")
    except ValueError as error:
        return Sentence((), (), (record.line,), document, str(error))
    return Sentence(words, tags, [record.line] * len(words), document)


def listed(value: Any, name: str, what: str) -> list[str]:
    """A list of words or tags; a text has them between spaces."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list):
        raise ValueError(f"{name!r} is not a list of {what}s" if value is not None else f"there is no {name!r}")
    texts = [as_text(each) for each in value]
    for number, each in enumerate(texts, start=1):
        if not each.strip() or isinstance(value[number - 1], list | dict):
            raise ValueError(f"{what} {number} in {name!r} is {'empty' if not each.strip() else 'not a text'}")
        if not is_unicode(each):
            raise ValueError(f"{what} {number} in {name!r} is not valid Unicode")
    return texts


def with_spans(text: str, values: Sequence[Any], split: str) -> tuple[list[str], list[str]]:
    """The words of a text, which are cut where a span begins or ends inside of them, and their tags in BIO."""
    if not is_unicode(text):
        raise ValueError("the text is not valid Unicode")
    spans = sorted(span_of(value, text) for value in values)
    cuts = sorted({place for start, end, _ in spans for place in (start, end)})
    places = [piece for start, end in WORDS[split](text) for piece in cut_at(start, end, cuts)]
    tags = [OUTSIDE] * len(places)
    done, index = 0, 0
    for start, end, label in spans:
        if start < done:
            raise ValueError(f"the span {text[start:end]!r} ({start} to {end}) overlaps the one before it")
        while index < len(places) and places[index][0] < start:
            index += 1
        first = index
        while index < len(places) and places[index][1] <= end:
            tags[index] = f"{'B' if index == first else 'I'}-{label}"
            index += 1
        if index == first:
            raise ValueError(f"the span {text[start:end]!r} ({start} to {end}) has no word")
        done = end
    return [text[start:end] for start, end in places], tags


def span_of(value: Any, text: str) -> tuple[int, int, str]:
    """From {"start": 3, "end": 7, "label": "LOC"}, or [3, 7, "LOC"]."""
    fields = [value.get(key) for key in ("start", "end", "label")] if isinstance(value, dict) else value
    if not isinstance(fields, list) or len(fields) != 3:
        raise ValueError(f"{value!r:.60} is not a span such as {{'start': 3, 'end': 7, 'label': 'LOC'}}")
    start, end, label = fields
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(label, str) and label.strip()):
        raise ValueError(f"{value!r:.60} is not a span: start and end are whole numbers, and the label is a text")
    if not 0 <= start < end <= len(text):
        raise ValueError(f"the span from {start} to {end} is not within the {len(text)} characters of its text")
    return start, end, label


def cut_at(start: int, end: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    borders = [start, *(place for place in cuts if start < place < end), end]
    return list(pairwise(borders))


def texts_of(path: Path, reading: TaggedReading) -> Iterator[str]:
    """The texts of a file without regard to tags: the words of each sentence, or a text in each row."""
    if format_of(path) in TAGGED:
        yield from (" ".join(each.words) for each in columns(path, reading, silent))
        return
    for record in records(path, Format(reading.encoding)):
        usual = usual_column((*USUAL_NAMES["text"], *TOKEN_NAMES), record.fields)
        name = (
            reading.text if reading.text in record.fields else usual
        )  # it may have other columns than the training data
        if record.problem or name not in record.fields:
            raise Problem(f"{path}, line {record.line}: {record.problem or 'there is no text'}")
        value = record.fields[name]
        yield " ".join(map(as_text, value)) if isinstance(value, list) else as_text(value)
