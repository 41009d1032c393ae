"""Texts by language: how many there are, in which scripts, and which look like another language or script than their
label. Margins were chosen on half of Tatoeba's languages (benchmarks/wrong_languages.py)."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from pathlib import Path
from typing import NamedTuple
from unicodedata import east_asian_width

import numpy as np

from headway.config.errors import Problem
from headway.data.files import Progress, silent
from headway.data.languages import Passage, alike_names, refuse_spellings
from headway.data.mixtures import unimax
from headway.lab.lookalikes import LEAST_TEXTS, lookalikes
from headway.metrics.table import Table
from headway.text.scripts import HAN, HIRAGANA, JAPANESE, KATAKANA, NO_SCRIPT, main_script, scripts_of

MOST_LINES, MOST_CHARACTERS = 100_000, 4_000_000  # that are checked,
LONGEST = 400  # and of one line
RARE = 0.03  # share of a language's texts, below which a script is not one of its own
LITTLE = 0.2  # share of a text's letters, below which it is not written in these scripts
LEAST_LETTERS, LEAST_COMPARED = 4, 8  # to tell the script of a text, or its language
MARGIN, MARGIN_OF_NGRAM = 20.0, 0.2  # of log-likelihoods: of a whole text, and in the mean over its n-grams
LEAST_ALIKE, SHARE_ALIKE = 3, 0.05  # of a language's texts, above which two languages look alike
EXCERPT, FIRST_LINES, MOST_PAIRS = 40, 3, 12  # that are shown
SMALL_SHARE = 0.001  # of a script that is not worth naming


@dataclass
class LanguageFacts:
    """What there is in one language."""

    texts: int = 0
    characters: int = 0
    bytes: int = 0
    scripts: dict[str, float] = field(default_factory=dict)  # shares of its lines that were checked

    def add(self, passage: Passage) -> None:
        self.texts += passage.begins
        self.characters += len(passage.text)
        self.bytes += len(passage.text.encode())


@dataclass(frozen=True)
class Suspect:
    file: str
    line: int
    text: str  # its beginning
    margin: float | None = None  # of log-likelihoods, between the language that it looks like and its own


@dataclass(frozen=True)
class Pair:
    """Texts with one label that look like the same other thing."""

    labelled: str
    looks_like: str  # a language, or a script
    checked: int  # texts with this label
    texts: list[Suspect]

    @property
    def is_frequent(self) -> bool:
        """Whether so many texts look like one other language that it is not their labels that are wrong."""
        return len(self.texts) >= LEAST_ALIKE and len(self.texts) > SHARE_ALIKE * self.checked

    @property
    def weight(self) -> float:
        """How much speaks for it."""
        return sum(each.margin or 1.0 for each in self.texts)


class Line(NamedTuple):
    number: int  # in the order in which they are read
    text: str
    passage: Passage
    line: int


@dataclass(frozen=True)
class LanguageSurvey:
    languages: dict[str, LanguageFacts]  # from the one with most text on; "": they are not told apart
    lines: int  # texts; of text files, their lines
    checked: int
    files: int
    other_script: list[Pair] = field(default_factory=list)  # in scripts that are rare in their languages
    other_language: list[Pair] = field(default_factory=list)
    alike: list[Pair] = field(default_factory=list)  # languages of which many texts look like another one
    spellings: list[list[str]] = field(default_factory=list)  # names that may be those of one language

    @property
    def is_told_apart(self) -> bool:
        return list(self.languages) != [""]

    def table(self) -> Table:
        rows = [
            (name, each.texts, each.characters, each.bytes, ", ".join(shares_in_words(each.scripts)))
            for name, each in self.languages.items()
        ]
        columns = ["language", "texts", "characters", "bytes", "scripts"]
        return Table(columns, rows) if self.is_told_apart else Table(columns[1:], [row[1:] for row in rows])

    def warnings(self) -> list[tuple[str, Table]]:
        """Each with a table of pairs, from the one that most speaks for on."""
        kinds = [
            ("in a script that is rare in their language", "script", self.other_script),
            ("that look like another language than their label", "looks like", self.other_language),
            (
                "in languages that look like another one: relatives, or one language under two names",
                "looks like",
                self.alike,
            ),
        ]
        return [(self.heading(what, pairs), self.pair_table(column, pairs)) for what, column, pairs in kinds if pairs]

    def heading(self, what: str, pairs: Sequence[Pair]) -> str:
        total = sum(len(pair.texts) for pair in pairs)
        more = f"; the first {MOST_PAIRS} of {len(pairs):,} kinds" if len(pairs) > MOST_PAIRS else ""
        return f"texts {what}: {total:,}{more}"

    def pair_table(self, column: str, pairs: Sequence[Pair]) -> Table:
        rows = [
            (pair.labelled, pair.looks_like, len(pair.texts), pair.checked, self.places(pair), pair.texts[0].text)
            for pair in pairs[:MOST_PAIRS]
        ]
        columns = ["labelled", column, "texts", "of", "lines", "the first"]
        return Table(columns, rows) if self.is_told_apart else Table(columns[1:], [row[1:] for row in rows])

    def places(self, pair: Pair) -> str:
        """The first of them; with the names of files if there are several."""
        firsts = pair.texts[:FIRST_LINES]
        places = [f"{each.file}:{each.line}" if self.files > 1 else str(each.line) for each in firsts]
        return ", ".join(places) + ", …" * (len(pair.texts) > FIRST_LINES)

    def notes(self) -> Iterator[str]:
        if self.is_told_apart and (few := sum(each.texts < LEAST_TEXTS for each in self.languages.values())):
            yield f"languages with fewer than {LEAST_TEXTS} texts, which are not compared with others: {few:,}"
        for names in self.spellings:
            yield f"{' and '.join(map(repr, names))} may be spellings of one language: they count as {len(names)}"
        if self.checked < self.lines:
            even = ", from each language as evenly as possible" if self.is_told_apart else ""
            some = f"{self.checked:,} of the {self.lines:,} texts or lines"
            yield f"scripts and warnings are of {some}, drawn at random{even}"

    def _repr_html_(self) -> str:
        warnings = "".join(f"<p>{heading}</p>{table._repr_html_()}" for heading, table in self.warnings())
        return f"{self.table()._repr_html_()}{warnings}"


def shares_in_words(shares: Mapping[str, float]) -> Iterator[str]:
    for name, share in shares.items():
        if share >= SMALL_SHARE:
            yield name if share > 1 - SMALL_SHARE else f"{name} {share:.1%}"


def survey_languages(passages: Iterable[Passage], where: str, progress: Progress = silent) -> LanguageSurvey:
    facts: defaultdict[str, LanguageFacts] = defaultdict(LanguageFacts)
    sample, files = EvenSample(MOST_LINES), set[Path]()
    for passage in passages:
        facts[passage.language].add(passage)
        files.add(passage.file)
        for line, text in passage.lines():
            sample.add(passage, line, text)
    if not facts:
        raise Problem(f"{where} has no texts")
    refuse_spellings(facts, where)
    lines = sample.lines()
    checked = Checked(lines, progress)
    for name, own in facts.items():
        own.scripts = checked.shares_of_scripts(name)
    ranked = dict(sorted(facts.items(), key=lambda entry: -entry[1].bytes))
    spellings = [sorted(names) for names in alike_names(ranked)]
    return LanguageSurvey(ranked, sample.seen, len(lines), len(files), *checked.pairs(), spellings)


class EvenSample:
    """At most so many lines, from each language as evenly as possible: a small one is kept whole. What is kept of a
    language is what drew the lowest numbers."""

    def __init__(self, most: int):
        self.most, self.seen, self.size = most, 0, 0
        self.kept: defaultdict[str, list[tuple[float, Line]]] = defaultdict(list)
        self.limits: dict[str, float] = {}
        self.random, self.numbers = random.Random(0), count()

    def add(self, passage: Passage, line: int, text: str) -> None:
        self.seen += 1
        drawn = self.random.random()
        if drawn < self.limits.get(passage.language, 1.0):
            place = Line(next(self.numbers), text[:LONGEST], passage._replace(text=""), line)
            self.kept[passage.language].append((drawn, place))
            self.size += 1
            if self.size > 2 * self.most:
                self.shrink(self.most)

    def shrink(self, most: int) -> None:
        if self.size <= most:
            return
        shares = unimax(np.array([float(len(own)) for own in self.kept.values()]), most, 1.0)
        for (name, own), share in zip(self.kept.items(), shares.tolist(), strict=True):
            left = max(round(share * most), 1)
            if left < len(own):
                own.sort()
                self.limits[name] = own[left][0]
                del own[left:]
        self.size = sum(len(own) for own in self.kept.values())

    def lines(self) -> list[Line]:
        """In the order in which they were read."""
        self.shrink(self.most)
        characters = sum(len(line.text) for own in self.kept.values() for _, line in own)
        self.shrink(int(self.size * min(MOST_CHARACTERS / max(characters, 1), 1)))
        return sorted(line for own in self.kept.values() for _, line in own)


class Checked:
    """Lines with what their letters say."""

    def __init__(self, lines: Sequence[Line], progress: Progress):
        self.lines, self.progress = lines, progress
        self.names = list(dict.fromkeys(line.passage.language for line in lines))
        numbers = {name: number for number, name in enumerate(self.names)}
        self.labels = np.array([numbers[line.passage.language] for line in lines])
        self.letters = [scripts_of(line.text) for line in lines]
        self.sizes = np.array([letters.total() for letters in self.letters])
        self.scripts = [main_script(letters) for letters in self.letters]
        self.by_label = [Counter[str]() for _ in self.names]
        for label, script in zip(self.labels.tolist(), self.scripts, strict=True):
            if script != NO_SCRIPT:
                self.by_label[label][script] += 1
        self.checked = np.bincount(self.labels, minlength=len(self.names)).tolist()

    def shares_of_scripts(self, name: str) -> dict[str, float]:
        counts = self.by_label[self.names.index(name)] if name in self.names else Counter[str]()
        return {script: size / counts.total() for script, size in counts.most_common()}

    def pairs(self) -> tuple[list[Pair], list[Pair], list[Pair]]:
        """By script, by language, and of languages of which many texts look like another one."""
        is_odd = self.in_rare_scripts()
        by_script = self.grouped((row, self.scripts[row], None) for row in np.flatnonzero(is_odd).tolist())
        by_language = self.grouped(self.other_languages(np.flatnonzero(~is_odd)))
        others = [pair for pair in by_language if not pair.is_frequent]
        return by_script, others, [pair for pair in by_language if pair.is_frequent]

    def other_languages(self, rows: np.ndarray) -> Iterator[tuple[int, str, float]]:
        """Those of the rows that look like another language, which, and by what margin."""
        # Japanese is compared with Chinese.
        names = [HAN if self.scripts[row] == JAPANESE else self.scripts[row] for row in rows.tolist()]
        scripts = np.unique(names, return_inverse=True)[1]
        texts = [self.lines[row].text for row in rows.tolist()]
        others = lookalikes(texts, self.labels[rows], scripts, self.progress)
        is_other = (others.margins > MARGIN) & (others.margins > MARGIN_OF_NGRAM * others.ngrams)
        is_other &= self.sizes[rows] >= LEAST_COMPARED
        columns = [each[is_other].tolist() for each in (rows, others.labels, others.margins)]
        for row, label, margin in zip(*columns, strict=True):
            yield row, self.names[label], margin

    def in_rare_scripts(self) -> np.ndarray:
        """(N,): whether nearly all letters of a line are in scripts that few texts in its language are in."""
        own = [letters_of(counts) for counts in self.by_label]
        usual = [
            sum(letters[script] for script in own[label])
            for letters, label in zip(self.letters, self.labels, strict=True)
        ]
        return (self.sizes >= LEAST_LETTERS) & (np.array(usual) < LITTLE * self.sizes)

    def grouped(self, entries: Iterable[tuple[int, str, float | None]]) -> list[Pair]:
        """Of rows, what they look like, and by what margin; the pair that most speaks for is first."""
        pairs: defaultdict[tuple[int, str], list[Suspect]] = defaultdict(list)
        for row, other, margin in entries:
            line = self.lines[row]
            rounded = None if margin is None else round(margin, 1)
            pairs[int(self.labels[row]), other].append(
                Suspect(str(line.passage.file), line.line, beginning(line.text), rounded)
            )
        made = [Pair(self.names[label], other, self.checked[label], own) for (label, other), own in pairs.items()]
        return sorted(made, key=lambda pair: -pair.weight)


def letters_of(counts: Counter[str]) -> set[str]:
    """The scripts of letters in texts with so many main scripts, but for rare ones."""
    usual = {script for script, size in counts.items() if size >= RARE * counts.total()}
    return usual | {HAN, HIRAGANA, KATAKANA} if JAPANESE in usual else usual


def beginning(text: str) -> str:
    """As much as fits in a cell of a table: letters of East Asia are two columns wide."""
    line = " ".join(text.split())
    fits = sum(end <= EXCERPT for end in accumulate(2 if east_asian_width(each) in "WF" else 1 for each in line))
    return line if fits == len(line) else f"{line[: fits - 1]}…"
