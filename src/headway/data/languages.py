"""Languages of texts: their names, which texts are in which, how many texts each has, and where a text stands."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from headway.config.errors import Problem
from headway.data.files import COMPRESSIONS

FILES = "files"  # in place of a column: each file or folder is a language
FORMATS = (".txt", ".text", ".md", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".tokens", *COMPRESSIONS)


@dataclass(frozen=True)
class Languages:
    names: Sequence[str]
    rows: np.ndarray  # (N,): the number of the language of each row

    def take(self, rows: np.ndarray) -> Self:
        return replace(self, rows=self.rows[rows])

    def by_name(self) -> dict[str, np.ndarray]:
        """The rows of each language that has any."""
        order = np.argsort(self.rows, kind="stable")
        bounds = np.searchsorted(self.rows[order], np.arange(len(self.names) + 1))
        spans = zip(self.names, bounds, bounds[1:], strict=False)
        return {name: order[first:last] for name, first, last in spans if last > first}


class Passage(NamedTuple):
    """A text, or a part of one, and where it begins."""

    text: str
    language: str
    file: Path
    line: int
    begins: bool = True  # whether the text begins with it
    has_lines: bool = False  # whether its lines are those of the file

    def lines(self) -> Iterator[tuple[int, str]]:
        """What can be told apart by its number; empty lines are left out."""
        if not self.has_lines:
            yield self.line, self.text
            return
        for number, line in enumerate(self.text.split("\n"), start=self.line):
            if line.strip():
                yield number, line


def language_of_file(path: Path) -> str:
    """``en/a.txt`` and ``en.txt.gz`` are in ``en``, and so is ``train.en``."""
    if len(path.parts) > 1:
        return path.parts[0]
    name = path
    while name.suffix.lower() in FORMATS:
        name = name.with_suffix("")
    return name.suffix.removeprefix(".") or name.name


def refuse_spellings(names: Iterable[str], where: object) -> None:
    """``EN`` and ``en`` would be two languages by mistake."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise Problem(f"{where}: {other!r} and {name!r} are two spellings of one language: write it in one way")


def alike_names(names: Iterable[str]) -> list[list[str]]:
    """Names that only differ in hyphens, underscores, spaces and case: ``pt-BR`` and ``pt_BR``."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[name.casefold().replace("-", "_").replace(" ", "_")].append(name)
    return [own for own in alike.values() if len(own) > 1]
