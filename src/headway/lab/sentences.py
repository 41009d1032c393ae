"""Sentences in several languages, and which of them are translations of one another."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headway.config.errors import Problem, did_you_mean
from headway.data.examples import Example, Reading, examples, quoted
from headway.data.files import Progress, silent
from headway.data.readers import Format, records
from headway.lab.tokenizers import refuse_bad_texts

ENGLISH = ("en", "eng", "english")
LINE = "line"  # in place of a column: line n of each file is the same sentence
MOST_NAMED = 5  # languages, in a message


class Sentence(NamedTuple):
    text: str
    language: str
    key: str | None = None  # that of its translations


@dataclass(frozen=True)
class Parallel:
    """Which sentences are translations of one another: those with the same value in a column, or on the same line; or
    each text has its translation into one language in a column."""

    same: str | None = None  # a column, or LINE
    translation: str | None = None
    against: str | None = None  # the language to compare with; None: English, or that of the translation

    def __post_init__(self) -> None:
        if self.same and self.translation:
            raise Problem("same and translation are two ways to say which sentences belong together: name one of them")

    def key_of(self, example: Example) -> str | None:
        return str(example.line) if self.same == LINE else example.group if self.column else None

    @property
    def column(self) -> str | None:
        return self.translation if self.same in (None, LINE) else self.same

    def language_among(self, names: Collection[str]) -> str | None:
        """The one to compare with."""
        if self.against or self.translation:
            name = self.against or self.translation or ""
            if name not in names:
                raise Problem(f"there is no text in {name!r} to compare with; {did_you_mean(name, names)}")
            return name
        english = next((name for name in names if is_english(name)), None)
        if english is None and self.same:
            listed = quoted(sorted(names)[:MOST_NAMED])
            raise Problem(f"there is no English to compare with: name another language (against), such as {listed}")
        return english


def is_english(name: str) -> bool:
    """``eng_Latn`` and ``en-GB``, too."""
    return name.casefold().replace("-", "_").partition("_")[0] in ENGLISH


def sentences_in(
    paths: Sequence[Path], language: str, text: str | None, parallel: Parallel, progress: Progress = silent
) -> Iterator[Sentence]:
    """Each line of a text file is a text, and each file of a folder. A translation is a sentence, too."""
    translations: set[str] = set()
    for path in paths:
        if path.is_dir() and parallel.same == LINE:
            raise Problem(f"{path} is a folder: name its files, whose lines can be compared")
        form = Format(whole=path.is_dir())
        refuse_missing(parallel.column, path, form)
        reading = Reading(text, group=parallel.column, language=language, has_labels=False, format=form)
        for example in examples(path, reading, progress=progress):
            key = parallel.key_of(example)
            yield Sentence(example.text, example.language, key)
            if parallel.translation and example.group not in translations:
                translations.add(example.group)
                yield Sentence(example.group, parallel.against or parallel.translation, key)


def refuse_missing(column: str | None, path: Path, form: Format) -> None:
    first = next(records(path, form), None) if column else None
    if first is not None and column not in first.fields:
        raise Problem(f"{path} has no column {column!r}; {did_you_mean(str(column), first.fields)}")


def sentences_of(texts: Mapping[str, Sequence[str]], are_parallel: bool) -> Iterator[Sentence]:
    """By language; text n of each is the same sentence if they are parallel."""
    refuse_bad_texts(texts)
    for name, own in texts.items():
        for number, text in enumerate(own):
            yield Sentence(text, name, str(number) if are_parallel else None)
