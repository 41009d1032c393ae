"""How well a tokenizer serves each language: tokens per word (its fertility), per character and per byte, what it does
not know, how much of its vocabulary a language uses, and parity: the tokens of sentences, by those of the same
sentences in English (Petrov et al. 2023, https://arxiv.org/abs/2305.15425)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import fsum
from pathlib import Path

import numpy as np

from headway.config.errors import Problem
from headway.data.languages import refuse_spellings
from headway.lab.plot import Plot
from headway.lab.sentences import Parallel, Sentence
from headway.lab.tokenizers import TokenizerSet
from headway.metrics.table import Table
from headway.text.scripts import main_script, scripts_of, words_of
from headway.text.tokenizer import Tokenizer

AT_ONCE = 1024  # sentences
MOST_COLOURS = 10


@dataclass(frozen=True)
class LanguageFertility:
    """What a tokenizer makes of the texts in one language."""

    script: str
    texts: int
    words: int
    tokens: int
    fertility: float | None  # tokens per word; None: there are no words
    per_character: float
    per_byte: float
    unknown: float  # share of the tokens
    bytes: float  # share of the tokens that are no whole character
    vocabulary: float  # share of the vocabulary that its texts use
    parity: float | None  # tokens, by those of the same sentences in the language it is compared with


MEASURES = ("fertility", "parity", "per_character", "per_byte", "unknown", "bytes", "vocabulary")
SHARES = {"unknown", "bytes", "vocabulary"}
COLUMNS = {"per_character": "tokens/character", "per_byte": "tokens/byte", "bytes": "byte tokens"}


@dataclass(frozen=True)
class TokenizerReport:
    """One tokenizer, or one for each group of languages, on texts in several languages."""

    name: str
    vocabulary: int
    against: str | None  # the language that the others are compared with
    languages: dict[str, LanguageFertility]  # from the one with most tokens per word, or per word of English, on

    @property
    def main_measure(self) -> str:
        """Parity, if there are translations."""
        return "parity" if any(each.parity is not None for each in self.languages.values()) else "fertility"

    def values(self, measure: str) -> dict[str, float]:
        """Of each language that has one."""
        both = ((name, getattr(each, measure)) for name, each in self.languages.items())
        return {name: value for name, value in both if value is not None}

    @property
    def scripts(self) -> dict[str, dict[str, float]]:
        """Means over the languages in each script."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for name, each in self.languages.items():
            names[each.script].append(name)
        rows: dict[str, dict[str, float]] = {}
        for script, own in names.items():
            rows[script] = {"languages": len(own)}
            for measure in MEASURES:
                values = [value for name, value in self.values(measure).items() if name in own]
                rows[script] |= {measure: fsum(values) / len(values)} if values else {}
        return dict(sorted(rows.items(), key=lambda row: -row[1].get(self.main_measure, 0)))

    def mean(self, measure: str) -> float:
        values = self.values(measure).values()
        return fsum(values) / len(values)

    def worst(self, measure: str) -> tuple[str, float]:
        return max(self.values(measure).items(), key=lambda entry: entry[1])

    @property
    def worst_to_english(self) -> float | None:
        """Tokens per word of the worst language, by those of English."""
        english = self.values("fertility").get(self.against or "")
        return self.worst("fertility")[1] / english if english else None

    def table(self) -> Table:
        rows = (
            [name, each.script, each.texts, each.tokens, *self.cells(vars(each))]
            for name, each in self.languages.items()
        )
        return Table(["language", "script", "texts", "tokens", *self.columns], rows)

    def script_table(self) -> Table:
        rows = ([script, row["languages"], *self.cells(row)] for script, row in self.scripts.items())
        return Table(["script", "languages", *self.columns], rows)

    @property
    def measures(self) -> list[str]:
        return [measure for measure in MEASURES if self.values(measure)]

    @property
    def columns(self) -> list[str]:
        return [COLUMNS.get(measure, measure) for measure in self.measures]

    def cells(self, row: Mapping[str, object]) -> list[str]:
        return [shown(row.get(measure), measure) for measure in self.measures]

    def plot(self) -> Plot:
        return plot_languages([self], self.main_measure, [self.name])

    def _repr_html_(self) -> str:
        return f"{self.table()._repr_html_()}<p>means by script</p>{self.script_table()._repr_html_()}"


@dataclass(frozen=True)
class TokenizerComparison:
    reports: list[TokenizerReport]

    @property
    def measure(self) -> str:
        return self.reports[0].main_measure

    @property
    def names(self) -> list[str]:
        """Of the tokenizers, without a folder that all of them are in."""
        paths = [Path(report.name) for report in self.reports]
        is_shared = len({path.parent for path in paths}) == 1
        return [path.name if is_shared else str(path) for path in paths]

    def table(self) -> Table:
        """Of each tokenizer: means over all languages, and the worst of them."""
        first = self.reports[0]
        measures = [measure for measure in ("fertility", "parity") if first.values(measure)]
        columns = ["tokenizer", "vocabulary", "byte tokens"]
        columns += [column for measure in measures for column in (measure, f"worst {measure}")]
        columns += [f"worst fertility / {first.against or 'English'}"]
        named = zip(self.names, self.reports, strict=True)
        return Table(columns, ([name, *self.means(report, measures)] for name, report in named))

    def means(self, report: TokenizerReport, measures: Sequence[str]) -> Iterator[object]:
        yield from (report.vocabulary, shown(report.mean("bytes"), "bytes"))
        for measure in measures:
            name, worst = report.worst(measure)
            yield from (shown(report.mean(measure), measure), f"{worst:.2f} {name}")
        yield shown(report.worst_to_english, "fertility")

    def language_table(self) -> Table:
        """Parity, or fertility without translations, by language."""
        first = self.reports[0]
        values = [report.values(self.measure) for report in self.reports]
        rows = (
            [name, each.script, *(shown(own.get(name), self.measure) for own in values)]
            for name, each in first.languages.items()
        )
        return Table(["language", "script", *self.names], rows)

    def script_table(self) -> Table:
        rows = (
            [
                script,
                row["languages"],
                *(shown(each.scripts[script].get(self.measure), self.measure) for each in self.reports),
            ]
            for script, row in self.reports[0].scripts.items()
        )
        return Table(["script", "languages", *self.names], rows)

    def plot(self) -> Plot:
        return plot_languages(self.reports, self.measure, self.names)

    def _repr_html_(self) -> str:
        return f"{self.table()._repr_html_()}<p>{self.measure}</p>{self.language_table()._repr_html_()}"


def shown(value: object, measure: str) -> str:
    if not isinstance(value, int | float):
        return ""
    return f"{value:.1%}" if measure in SHARES else f"{value:.2f}"


def plot_languages(reports: Sequence[TokenizerReport], measure: str, labels: Sequence[str]) -> Plot:
    """A row of languages, from the worst of the first tokenizer on; with one tokenizer, a colour for each script."""
    first = reports[0]
    names = list(first.values(measure))
    plot = Plot((max(6.0, 1.5 + 0.16 * len(names)), 4.5))
    axes = plot.axes[0, 0]
    if len(reports) == 1:
        scripts = [script for script, _ in Counter(each.script for each in first.languages.values()).most_common()]
        for index, script in enumerate(scripts):
            own = [place for place, name in enumerate(names) if first.languages[name].script == script]
            heights = [first.values(measure)[names[place]] for place in own]
            colour = f"C{index}" if index < MOST_COLOURS - 1 else "lightgrey"
            label = script if index < MOST_COLOURS - 1 else "other scripts" if index == MOST_COLOURS - 1 else None
            axes.bar(own, heights, color=colour, label=label)
    else:
        for report, label, marker in zip(reports, labels, "os^Dv*P<>X" * len(reports), strict=False):
            values = report.values(measure)
            axes.plot([values.get(name) for name in names], marker, markersize=4, label=label)
    axes.axhline(1, color="grey", linewidth=1)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize="x-small")
    axes.set_xlim(-0.8, len(names) - 0.2)
    axes.set(ylabel=f"tokens by those in {first.against}" if measure == "parity" else "tokens per word", yscale="log")
    for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        set_formatter(lambda value, _: f"{value:g}")
    axes.grid(alpha=0.3, axis="y")
    axes.legend(fontsize="small")
    return plot


@dataclass
class About:
    """The texts in one language."""

    texts: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    scripts: Counter[str] = field(default_factory=Counter)

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.texts += 1
            self.words += len(words_of(text))
            self.characters += len(text)
            self.bytes += len(text.encode())
            self.scripts.update(scripts_of(text))


class Counts:
    """The tokens of the texts in one language."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.tokens = np.zeros(len(tokenizer), np.int64)  # of each kind
        self.by_key: defaultdict[str, list[int]] = defaultdict(list)  # numbers of tokens of a sentence

    def add(self, sentences: Sequence[Sentence]) -> None:
        rows = self.tokenizer.encode([each.text for each in sentences])
        self.tokens += np.bincount(np.concatenate(rows), minlength=len(self.tokens))
        for sentence, row in zip(sentences, rows, strict=True):
            if sentence.key is not None:
                self.by_key[sentence.key].append(len(row))

    def parity(self, other: "Counts") -> float | None:
        """The mean of several translations of a sentence counts."""
        shared = self.by_key.keys() & other.by_key.keys()
        own, theirs = (fsum(fsum(each.by_key[key]) / len(each.by_key[key]) for key in shared) for each in (self, other))
        return own / theirs if theirs else None

    def fertility(self, about: About, other: "Counts | None") -> LanguageFertility:
        total, vocabulary = int(self.tokens.sum()), ~self.tokenizer.is_special
        return LanguageFertility(
            script=main_script(about.scripts),
            texts=about.texts,
            words=about.words,
            tokens=total,
            fertility=total / about.words if about.words else None,
            per_character=total / about.characters,
            per_byte=total / about.bytes,
            unknown=float(self.tokens[self.tokenizer.is_unknown].sum()) / max(total, 1),
            bytes=float(self.tokens[self.tokenizer.is_partial].sum()) / max(total, 1),
            vocabulary=float((self.tokens[vocabulary] > 0).mean()),
            parity=self.parity(other) if other is not None else None,
        )


def measure(sets: Sequence[TokenizerSet], sentences: Iterable[Sentence], parallel: Parallel) -> list[TokenizerReport]:
    abouts: defaultdict[str, About] = defaultdict(About)
    counts: list[dict[str, Counts]] = [{} for _ in sets]
    rest = iter(sentences)
    while chunk := list(islice(rest, AT_ONCE)):
        for name in dict.fromkeys(each.language for each in chunk):
            own = [each for each in chunk if each.language == name]
            abouts[name].add(each.text for each in own)
            for tokenizers, known in zip(sets, counts, strict=True):
                if name not in known:
                    known[name] = Counts(tokenizers.of(name))
                known[name].add(own)
    if not abouts:
        raise Problem("there are no texts to tokenize")
    refuse_spellings(abouts, "the texts")
    against = parallel.language_among(abouts)
    return [report(tokenizers, known, abouts, against) for tokenizers, known in zip(sets, counts, strict=True)]


def report(
    tokenizers: TokenizerSet, counts: Mapping[str, Counts], abouts: Mapping[str, About], against: str | None
) -> TokenizerReport:
    other = counts[against] if against is not None else None
    rows = {name: own.fertility(abouts[name], other) for name, own in counts.items()}
    by_parity = any(row.parity is not None for row in rows.values())
    ranked = sorted(rows, key=lambda name: -((rows[name].parity if by_parity else rows[name].fertility) or 0))
    return TokenizerReport(tokenizers.name, len(tokenizers), against, {name: rows[name] for name in ranked})
