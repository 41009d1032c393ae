"""Parallel texts in several languages: pairs for every direction of translation that there are texts for.

train.en, train.de, train.fr         files whose lines correspond; their languages are in their names
en, de, fr                           columns of a table; a row may lack some of them
source, target, and their languages  a table of pairs, with columns that name the language of each side
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.data.directions import Direction, Directions, among
from headway.data.examples import LeftOut, as_text, good_rows
from headway.data.files import open_text
from headway.data.languages import Passage, refuse_spellings
from headway.data.parallel_texts import SIDES, Pair, ParallelTexts, with_inner_fields
from headway.data.readers import Format, Record, records
from headway.data.splitting import fingerprint, reader

LANGUAGES = ("source_language", "target_language")
ROW = np.dtype([("line", "<u8"), ("direction", "<i8"), ("source", "<u8"), ("target", "<u8")])


class Line(NamedTuple):
    number: int
    texts: dict[str, str]  # by language; none of them is empty
    directions: Sequence[Direction]


class Index(NamedTuple):
    """What is known about each pair before it is encoded."""

    directions: Directions
    groups: np.ndarray  # (N,): pairs of one group stay on one side of a split
    sides: np.ndarray  # (N, 2): fingerprints of source and target, as a model reads them


@dataclass
class MultiwayTexts(ParallelTexts):
    languages: tuple[str, ...] = ()  # of the files, or the columns that are read; (): the rows say it
    sides: tuple[
        str, ...
    ] = ()  # the columns that say it; of one: that of the target, and the source has its column's name
    wanted: tuple[Direction, ...] = ()  # the directions of the pairs
    can_turn: bool = False  # whether rows of a direction that is wanted the other way round only are turned round

    @property
    def choices(self) -> dict[str, Any]:
        return {**super().choices, "languages": self.languages, "sides": self.sides, "wanted": self.wanted}

    @cached_property
    def counts(self) -> dict[Direction, int]:
        """The number of pairs of each direction that there are texts for."""
        counts: Counter[Direction] = Counter()
        languages: dict[str, None] = dict.fromkeys(self.languages)
        for line in self.lines("reading"):
            counts.update(line.directions)
            languages |= dict.fromkeys(line.texts)
        refuse_spellings(languages, self.name)
        return {each: counts[each] for each in among(list(languages)) if counts[each]}

    def possible(self) -> list[Direction]:
        """The directions that pairs can be made of."""
        if not self.counts:
            raise Problem(f"{self.name}: no line has texts in two languages")
        turned = [Direction(target, source) for source, target in self.counts] if self.can_turn else []
        return list(dict.fromkeys([*self.counts, *turned]))

    def lines(self, doing: str, left_out: LeftOut | None = None) -> Iterator[Line]:
        """Those with a pair; the others are added to ``left_out``."""
        left_out = LeftOut() if left_out is None else left_out
        if self.sides:
            lines = self.of_pairs(doing, left_out)
        else:
            lines = self.of_files(doing) if len(self.files) > 1 else self.of_languages(doing, left_out)
        for line in lines:
            if line.directions:
                yield line
            elif len(line.texts) < 2:
                left_out.empty.append(line.number)

    def pairs(self, doing: str = "reading", left_out: LeftOut | None = None) -> Iterator[Pair]:
        wanted = frozenset(self.wanted)
        turned = self.turned
        for line in self.lines(doing, left_out):
            for source, target in self.directions_of(line, wanted, turned):
                yield Pair(line.number, line.texts[source], line.texts[target])

    def passages(self, notes: list[str]) -> Iterator[Passage]:
        left_out = LeftOut()
        files = dict(zip(self.languages, self.files, strict=True)) if len(self.files) > 1 else {}
        for line in self.lines("reading", left_out):
            for name, text in line.texts.items():
                yield Passage(text, name, files.get(name, self.files[0]), line.number)
        notes += left_out.notes(Path(self.name))

    @property
    def turned(self) -> frozenset[Direction]:
        """The wanted directions that rows of a table have only the other way round."""
        return frozenset(each for each in self.wanted if self.can_turn and each not in self.counts)

    def directions_of(
        self, line: Line, wanted: frozenset[Direction], turned: frozenset[Direction]
    ) -> Iterator[Direction]:
        for each in line.directions:
            if each in wanted:
                yield each
            if (back := Direction(each.target, each.source)) in turned:
                yield back

    def of_files(self, doing: str) -> Iterator[Line]:
        number = 0
        with ExitStack() as stack:
            shown = [self.show(doing), *([lambda *_: None] * (len(self.files) - 1))]
            files = [
                stack.enter_context(open_text(path, self.encoding, show))
                for path, show in zip(self.files, shown, strict=True)
            ]
            for number, texts in enumerate(zip_longest(*files), start=1):
                if None in texts:
                    short = self.files[texts.index(None)]
                    long = next(path for path, text in zip(self.files, texts, strict=True) if text is not None)
                    raise Problem(
                        f"{short} ends after line {number - 1:,}, but {long} continues: line n of one must correspond "
                        "to line n of the others"
                    )
                yield self.line(
                    number, {name: text.rstrip("\r\n") for name, text in zip(self.languages, texts, strict=True)}
                )
        if not number:
            raise Problem(f"{self.name} are empty")

    def of_languages(self, doing: str, left_out: LeftOut) -> Iterator[Line]:
        (path,) = self.files
        blank = dict.fromkeys(self.languages, "")
        rows = records(path, Format(self.encoding), self.show(doing))
        flat = (with_inner_fields(record) for record in rows)
        filled = (replace(each, fields={**blank, **each.fields}) if each.fields else each for each in flat)
        columns = {name: name for name in self.languages}
        for record, _ in good_rows(filled, path, lambda _: columns, left_out, self.skip_bad, self.languages):
            yield self.line(record.line, {name: as_text(record.fields[name]) for name in self.languages})

    def of_pairs(self, doing: str, left_out: LeftOut) -> Iterator[Line]:
        (path,) = self.files
        rows = records(path, Format(self.encoding), self.show(doing))
        for record, columns in good_rows(rows, path, self.find_columns, left_out, self.skip_bad, SIDES):
            source, target, *names = (as_text(record.fields[name]) for name in columns.values())
            direction = Direction(*(name.strip() for name in (columns["source"], *names)[-2:]))
            if direction.source == direction.target:
                left_out.take_bad(
                    path, record.line, f"source and target are both in {direction.source!r}", self.skip_bad
                )
                continue
            texts = {direction.source: source, direction.target: target}
            yield self.line(record.line, texts, [direction])

    def line(self, number: int, texts: Mapping[str, str], directions: Sequence[Direction] | None = None) -> Line:
        filled = {name: text for name, text in texts.items() if text.strip()}
        if directions is None:
            directions = among(list(filled))
        return Line(number, filled, directions if len(filled) > 1 else ())

    def find_columns(self, first: Record) -> dict[str, str]:
        for column in self.sides:
            if column not in first.fields:
                known = list(first.fields)
                raise BadSetting(
                    "data.languages", f"{self.name} has no column {column!r}; {did_you_mean(column, known)}"
                )
        return super().find_columns(first) | dict(zip(LANGUAGES[-len(self.sides) :], self.sides, strict=True))

    def index(self, normalize: str) -> Index:
        """Of all pairs. Lines are connected if they share a text in any language: all that are connected, in every
        direction, are one group."""
        read, wanted, turned = reader(normalize), frozenset(self.wanted), self.turned
        numbers = {direction: number for number, direction in enumerate(self.wanted)}

        def rows() -> Iterator[tuple[int, int, int, int]]:
            for count, line in enumerate(self.lines("comparing")):
                prints = {name: fingerprint(read(text)) for name, text in line.texts.items()}
                for each in self.directions_of(line, wanted, turned):
                    yield count, numbers[each], prints[each.source], prints[each.target]

        pairs = np.fromiter(rows(), dtype=ROW)
        sides = np.stack([pairs["source"], pairs["target"]], axis=1)
        return Index(Directions.of(self.wanted, pairs["direction"]), connected(pairs["line"], sides), sides)


def connected(lines: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """(N,): the smallest text that each pair is connected with, over lines (N,) and texts (N, 2) in turns."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names, line = np.unique(lines, return_inverse=True)
    texts, text = np.unique(sides, return_inverse=True)
    if not len(names):
        return texts
    ends = np.tile(line, 2), len(names) + text.reshape(sides.shape).T.reshape(-1)
    nodes = len(names) + len(texts)
    graph = coo_array((np.ones(len(ends[0]), bool), ends), shape=(nodes, nodes))
    count, component = connected_components(graph, directed=False)
    smallest = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(smallest, component[len(names) :], texts)
    return smallest[component[line]]
