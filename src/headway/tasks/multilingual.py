"""Shared by tasks whose texts may be in several languages: which text is in which, and how training mixes them."""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from headway.config.errors import BadSetting, Problem
from headway.config.json_files import NUMBER, known_fields, read_json
from headway.config.parts import bind
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.cache import kept, key_of
from headway.data.corpus import Corpus
from headway.data.dataset import Dataset
from headway.data.languages import Languages
from headway.data.mixtures import MIXTURES, PROPORTIONAL, Mixture, drawn, is_written
from headway.metrics.languages import language_means
from headway.tasks.abilities import Ability
from headway.tasks.file_task import TOKENIZER, VERBS, FileTask, HasTexts
from headway.text.extension import extend, spellings
from headway.text.tokenizer import Tokenizer

Metrics = dict[str, float]
LANGUAGES = "languages.json"
SHARE_SHAPE = {"texts": int, "size": int, "share": NUMBER, "epochs": NUMBER}
NEW, OLD = "new languages", "old languages"  # names of validation sets
VALIDATION, LEFT_OUT = "validation", "languages left out"
MOST_NAMED = 8  # languages, in a note


@dataclass(frozen=True)
class MultilingualData:
    language: str | None = setting(
        None,
        "the language of each text: name of a column, or files: each file or folder is a language; none: all texts are "
        "in one language",
    )
    mixture: str = setting(PROPORTIONAL, "share of each language in training: a rule, or en=0.6,sw=0.4")
    tokenizer_mixture: str | None = setting(
        None, "share of each language in what the tokenizer is learned from; none: as in training"
    )
    replay: float | None = setting(
        None,
        "share of training for the languages of the run it starts from; none: they are mixed like the others",
        least=0,
        below=1,
    )
    extend_vocabulary: int | None = setting(
        None,
        "maximum number of pieces to add to the tokenizer of the run it starts from, learned from the texts in new "
        "languages; none: its tokenizer stays as it is",
        least=1,
        most=10_000_000,
    )


@dataclass(frozen=True)
class LanguageShare:
    """What a language has in the training data."""

    texts: int
    size: int  # in the unit that the mixture counts: tokens, or examples
    share: float  # of all training steps
    epochs: float  # how often each text is read


class HasLanguages(Ability):
    """Its texts are in several languages, which are measured apart."""

    verb, does = "evaluate RUN", "tell languages apart"

    @property
    @abstractmethod
    def known(self) -> frozenset[str]:
        """The languages of the run that it starts from; none if that did not tell them apart."""

    @abstractmethod
    def fingerprints(self, use: str) -> np.ndarray:
        """Of the different texts for this use, but for case, punctuation and spaces."""

    @abstractmethod
    def by_language(self, data: Any) -> Mapping[str, Dataset]:
        """The part of a dataset in each language."""

    @abstractmethod
    def shares_of_training(self) -> dict[str, LanguageShare]:
        """Of each language that is trained on."""

    @abstractmethod
    def measure(self, model: nn.Module, data: Any) -> dict[str, float]: ...

    def measure_languages(self, model: nn.Module, data: Any) -> dict[str, Metrics]:
        """From the one with most training text to the one with least."""
        sizes = {name: share.size for name, share in self.shares_of_training().items()}
        sets = self.by_language(data)
        return {name: self.measure(model, sets[name]) for name in sorted(sets, key=lambda name: -sizes.get(name, 0))}

    def language_means(self, by_language: Mapping[str, Metrics]) -> dict[str, Metrics]:
        """Over all languages, and over the thirds with most and least training text."""
        return language_means(by_language, {name: share.size for name, share in self.shares_of_training().items()})


class ExtendsVocabulary(Ability):
    """It may add pieces to the vocabulary of the run that it starts from."""

    @abstractmethod
    def spellings(self) -> list[list[int]]:
        """For each new piece, the ids of the old ones that spelled it."""


class Multilingual(FileTask, HasTexts, HasLanguages, ExtendsVocabulary):
    """A subclass takes ``languages`` of its corpora into account if ``is_multilingual``."""

    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "data.mixture": MIXTURES,
        "data.tokenizer_mixture": MIXTURES,
    }
    mixing_settings: ClassVar[frozenset[str]] = frozenset({"mixture", "replay", "extend_vocabulary"})

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.language_shares: dict[str, LanguageShare] = {}
        data = recipe.data
        for key in ("mixture", "tokenizer_mixture"):
            if not is_written(rule := getattr(data, key) or PROPORTIONAL):
                bind(MIXTURES, rule, f"data.{key}")
        for key in ("mixture", "tokenizer_mixture", "replay"):
            is_set = getattr(data, key) not in (None, PROPORTIONAL)
            if is_set and data.language is None:
                raise BadSetting(f"data.{key}", "it is about languages: set data.language to the column that has them")
        if data.replay is not None and recipe.start is None:
            raise BadSetting("data.replay", "there is nothing to replay: set start to a run, or leave it out")
        if data.extend_vocabulary is not None and recipe.start is None:
            raise BadSetting(
                "data.extend_vocabulary", "there is no vocabulary to extend: set start to a run, or data.vocab_size"
            )

    @property
    def is_multilingual(self) -> bool:
        return self.recipe.data.language is not None

    def abilities(self) -> list[type[Ability]]:
        return [each for each in super().abilities() if each is not HasLanguages or self.is_multilingual]

    @property
    def languages(self) -> Languages | None:
        return self.train.index.languages if self.is_multilingual else None

    @cached_property
    def known(self) -> frozenset[str]:
        path = Path(str(self.recipe.start)) / LANGUAGES
        return frozenset(read_json(path, {str: SHARE_SHAPE})) if path.is_file() else frozenset()

    @property
    def replayed(self) -> frozenset[str]:
        """Those of the known languages that have a share of their own."""
        if self.recipe.data.replay is None:
            return frozenset()
        if not self.known:
            raise BadSetting("data.replay", f"{self.recipe.start} was not trained with data.language: leave it out")
        return self.known

    @property
    def mixture(self) -> Mixture:
        return Mixture(self.recipe.data.mixture, self.replayed, self.recipe.data.replay)

    def tokenizer_from(self, corpus: Corpus, rows: np.ndarray) -> Tokenizer:
        """Learned from these rows (a boolean mask), or from as many that the mixture draws; never from languages that
        training leaves out."""
        data = self.recipe.data
        mixed = rows & ~self.is_in(self.mixture.left_out, rows)
        if data.extend_vocabulary is not None:
            return self.extended_tokenizer(corpus, rows, mixed)
        rule, key = data.tokenizer_mixture or data.mixture, "tokenizer_mixture" if data.tokenizer_mixture else "mixture"
        if not self.is_multilingual or rule == PROPORTIONAL:
            return super().tokenizer_from(corpus, mixed)

        @cache
        def draw() -> Callable[[], Iterator[str]]:
            own = partial(corpus.texts, "learning the words of", rows)
            return drawn(own, corpus.index.languages.take(np.flatnonzero(rows)), rule, f"data.{key}")

        return self.learn_tokenizer(
            lambda: draw()(), corpus=corpus.key, rows=np.packbits(rows).tobytes().hex(), mixture=rule
        )

    def extended_tokenizer(self, corpus: Corpus, rows: np.ndarray, mixed: np.ndarray) -> Tokenizer:
        """New pieces are learned from new languages, if there are any."""
        size, least = self.recipe.data.extend_vocabulary, self.recipe.data.min_count
        new = rows & ~self.is_in(self.known, rows)
        chosen = new if new.any() else mixed
        tokenizer = self.tokenizer_of_start()
        key = key_of(corpus=corpus.key, rows=np.packbits(chosen).tobytes().hex(), size=size, least_count=least)

        def learn(folder: Path) -> None:
            texts = corpus.texts("learning new pieces from", chosen)
            extend(tokenizer, texts, size, least).save(folder / TOKENIZER)

        try:
            return Tokenizer.load(kept("tokenizers", key_of(of=tokenizer.to_json(), key=key), learn) / TOKENIZER)
        except Problem as problem:
            raise BadSetting("data.extend_vocabulary", f"{self.recipe.start}: {problem}") from None

    def is_in(self, names: frozenset[str], rows: np.ndarray) -> np.ndarray:
        """(rows,): whether a text is in one of these languages."""
        if self.languages is None or not names:
            return np.zeros(len(rows), bool)
        return np.isin(self.languages.names, list(names))[self.languages.rows]

    def spellings(self) -> list[list[int]]:
        if self.recipe.data.extend_vocabulary is None:
            return []
        return spellings(self.tokenizer_of_start(), self.tokenizer)

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.is_multilingual:
            plan = {name: asdict(share) for name, share in self.shares_of_training().items()}
            (folder / LANGUAGES).write_text(json.dumps(plan, ensure_ascii=False, indent=1), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        if self.is_multilingual:
            rows = read_json(folder / LANGUAGES, {str: SHARE_SHAPE})
            self.language_shares = {name: LanguageShare(**known_fields(row, SHARE_SHAPE)) for name, row in rows.items()}

    def shares_of_training(self) -> dict[str, LanguageShare]:
        if not self.language_shares:
            languages, rows = self.train.index.languages, self.parts["train"]
            texts = np.bincount(languages.rows[rows], minlength=len(languages.names))
            plan = self.splits().train.plan(self.recipe.train)
            columns = zip(plan.names, texts, plan.sizes, plan.shares, plan.epochs, strict=True)
            self.language_shares = {
                name: LanguageShare(int(count), int(size), float(share), float(epochs))
                for name, count, size, share, epochs in columns
                if count
            }
        return self.language_shares

    def by_language(self, data: Any) -> Mapping[str, Dataset]:
        return data.by_language()

    def fingerprints(self, use: str) -> np.ndarray:
        is_part = use not in self.files or use == "train"
        index = (self.train if is_part else self.source(self.files[use])).index
        return np.unique(index.rows["read"][self.parts[use]] if is_part else index.rows["read"])

    def old_and_new(self, data: Any) -> dict[str, Any]:
        """Languages of another run that are replayed are validated apart from the others, and so are those that
        training leaves out."""
        own = set(data.by_language())
        if self.replayed:
            return {NEW: data.of_languages(own - self.replayed), OLD: data.of_languages(own & self.replayed)}
        left_out = own & self.mixture.left_out
        if left_out in (set(), own):
            return {VALIDATION: data}
        return {VALIDATION: data.of_languages(own - left_out), LEFT_OUT: data.of_languages(left_out)}

    def language_notes(self, sets: Mapping[str, Any]) -> Iterator[str]:
        """About languages of which nothing is held out."""
        for use in (use for use in VERBS if use in sets and use != "train") if self.is_multilingual else ():
            own, names = self.train.index.language_names, sets[use].by_language()
            missing = [name for name in own if name not in names]
            if len(missing) == len(own):
                raise Problem(f"{self.files['train']}: no language has enough texts to hold some out for {use}")
            if missing:
                more = f" and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
                named = ", ".join(missing[:MOST_NAMED]) + more
                yield f"languages without {use} texts, which are trained on and not measured: {named}"
