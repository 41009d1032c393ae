"""Shared by tasks that read files: the files by use (train, validation, test), held-out splits, a tokenizer learned
from the training split only, and a check that the files have not changed since the run began."""

import json
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.json_files import read_json
from headway.config.parts import bind
from headway.config.recipe import Recipe
from headway.data.cache import kept, key_of
from headway.data.corpus import Corpus
from headway.data.files import Progress, silent
from headway.data.languages import Languages, Passage
from headway.data.splitting import cut, joined_groups
from headway.tasks.abilities import Ability, Tokenizes
from headway.tasks.task import Splits, Task
from headway.text.extension import with_words
from headway.text.tokenizer import TOKENIZERS, Tokenizer, normalizer

TOKENIZER, DATA = "tokenizer.json", "data.json"
SPLIT, AS_READ = "split", "as read"  # an entry of the latter file
VERBS = {"train": "train", "validation": "validate", "test": "test"}  # for messages: nothing to ... on
TOKENIZER_SETTINGS = {
    "normalize",
    "tokenizer",
    "vocab_size",
    "min_count",
    "tokenizer_mixture",
}  # settings of the tokenizer


class Source(Protocol):
    """One or several files of examples."""

    @property
    def name(self) -> str: ...

    @property
    def content(self) -> str:
        """Checksum of the content; name and date do not matter."""

    def check(self) -> None:
        """Refuse a missing file and missing columns."""


class HasTexts(Ability):
    """Its training files can be described before training, by language if that is known."""

    does = "read texts that can be described"

    @abstractmethod
    def passages(self, notes: list[str], progress: Progress = silent) -> Iterator[Passage]: ...


class TakesWords(Ability):
    """Its vocabulary may have words that the training texts do not have: those of frozen word vectors."""

    does = "read words"
    more_words: Sequence[str] = ()


class FileTask(Task, Tokenizes, TakesWords):
    """A subclass names its files and opens them; its settings include those in ``TOKENIZER_SETTINGS``."""

    # Data settings that change how the examples are encoded, not which examples there are.
    encoding_settings: ClassVar[frozenset[str]] = frozenset()
    tokenizer: Tokenizer

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        if not is_file_of_tokenizer(recipe.data.tokenizer):
            bind(self.tables.get("data.tokenizer", TOKENIZERS), recipe.data.tokenizer, "data.tokenizer")
        normalizer(recipe.data.normalize, "data.normalize")
        self.vocab_size = recipe.data.vocab_size  # vocabulary size; an upper bound until the tokenizer is known
        self.sources: dict[str, Any] = {}  # by path: a file is opened and hashed once
        self.contents: dict[str, str] = {}  # by use: checksums of the files when the run began; empty in a new run
        self.splits_as_read = True  # whether texts that are read alike stay together; runs of 0.1 compared raw texts

    @classmethod
    def identity(cls, data: Any) -> dict[str, Any]:
        return {
            key: value
            for key, value in vars(data).items()
            if key not in TOKENIZER_SETTINGS and key not in cls.encoding_settings
        }

    @abstractmethod
    def training_files(self) -> dict[str, str]:
        """The training file, and those that come with it, by use."""

    @abstractmethod
    def open(self, path: str) -> Any:
        """A ``Source``."""

    @cached_property
    def files(self) -> dict[str, str]:
        """All files by use."""
        return self.training_files() | named_files(self.recipe.data)

    def source(self, path: str) -> Any:
        if path not in self.sources:
            self.sources[path] = self.open(path)
        return self.sources[path]

    @property
    def train(self) -> Any:
        return self.source(self.files["train"])

    def passages(self, notes: list[str], progress: Progress = silent) -> Iterator[Passage]:
        """All texts for training, with their languages and where they stand; what is left out is noted."""
        self.progress.to = progress
        passages: Iterator[Passage] = self.train.passages(notes)
        return passages

    @cached_property
    def shares(self) -> dict[str, float]:
        """Shares of the training data to hold out, for uses without a file."""
        return held_out_shares(self.recipe.data, self.files)

    def check_files(self) -> None:
        for path in self.files.values():
            self.source(path).check()

    @property
    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Boolean masks over the rows of the training file, by use."""

    @property
    def languages(self) -> Languages | None:
        """Of the rows of the training file; None: they are not told apart."""
        return None

    def tokenizer_of(self, side: str) -> Tokenizer:
        return self.tokenizer

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.vocab_size = tokenizer, len(tokenizer)

    def learn_tokenizer(self, texts: Callable[[], Iterable[str]], **key: Any) -> Tokenizer:
        """A tokenizer of these texts, kept in the cache; ``key`` identifies them. A run that starts from another one
        uses its tokenizer instead."""
        if self.recipe.start is not None:
            return self.tokenizer_of_start()
        data = self.recipe.data
        if is_file_of_tokenizer(data.tokenizer):
            return with_words(Tokenizer.load(Path(data.tokenizer)), self.more_words, data.vocab_size)
        choices: dict[str, Any] = {
            "kind": data.tokenizer,
            "normalize": data.normalize,
            "size": data.vocab_size,
            "least_count": data.min_count,
        }

        def learn(folder: Path) -> None:
            Tokenizer.learn(texts=Again(texts), **choices).save(folder / TOKENIZER)

        learned = Tokenizer.load(kept("tokenizers", key_of(**key, **choices), learn) / TOKENIZER)
        return with_words(learned, self.more_words, data.vocab_size)

    def tokenizer_of_start(self) -> Tokenizer:
        path = Path(str(self.recipe.start)) / TOKENIZER
        if not path.exists():
            raise BadSetting("start", f"{self.recipe.start} has no tokenizer: name a run that was trained on texts")
        return Tokenizer.load(path)

    def groups(self, corpus: Corpus) -> np.ndarray:
        """The group of each row: rows of one group stay in one split."""
        rows = corpus.index.rows
        return joined_groups(rows["group"], rows["read"]) if self.splits_as_read else rows["group"]

    def tokenizer_from(self, corpus: Corpus, rows: np.ndarray) -> Tokenizer:
        """Learned from these rows (a boolean mask)."""
        texts = partial(corpus.texts, "learning the words of", rows)
        return self.learn_tokenizer(texts, corpus=corpus.key, rows=np.packbits(rows).tobytes().hex())

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        contents = {use: self.source(path).content for use, path in self.files.items()} | {SPLIT: AS_READ}
        (folder / DATA).write_text(json.dumps(contents, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        self.contents = read_json(folder / DATA, {str: str})
        self.splits_as_read = self.contents.pop(SPLIT, "") == AS_READ
        self.use_tokenizer(Tokenizer.load(folder / TOKENIZER))

    def splits(self, progress: Progress = silent) -> Splits[Any]:
        self.progress.to = progress
        self.refuse_changed_files()
        return super().splits(progress)

    def refuse_changed_files(self) -> None:
        """If a file has changed, other rows would be held out, and the test set may contain training data."""
        for use, content in self.contents.items():
            if use not in self.files or self.source(self.files[use]).content != content:
                where = self.files.get(use, "no file")
                remedy = "restore the old file, or evaluate on the new one with evaluate --data"
                raise Problem(f"the {use} data ({where}) have changed since the run began; {remedy}")


class Again(Iterable[str]):
    """Texts that are read anew as often as they are wanted."""

    def __init__(self, read: Callable[[], Iterable[str]]):
        self.read = read

    def __iter__(self) -> Iterator[str]:
        return iter(self.read())


def is_file_of_tokenizer(text: str) -> bool:
    return text.endswith(".json")


def parse_share(text: str, key: str) -> float | None:
    """``0.1`` is a share; anything else is a file."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 < value < 1:
        raise BadSetting(key, f"a share must be between 0 and 1, not {text}")
    return value


def held_out(data: Any) -> dict[str, tuple[str, float | None]]:
    """The setting of each use, and its share; None if it names a file."""
    values = {"validation": data.validation, "test": data.test}
    for use, text in values.items():
        if text == "":
            raise BadSetting(f"data.{use}", "is empty: name a file, or set a share such as 0.1")
    return {use: (text, parse_share(text, f"data.{use}")) for use, text in values.items() if text is not None}


def named_files(data: Any) -> dict[str, str]:
    return {use: text for use, (text, share) in held_out(data).items() if share is None}


def held_out_shares(data: Any, files: Container[str]) -> dict[str, float]:
    """For the uses without a file: a data set may come with its own test file, and then the share does not apply."""
    shares = {use: share for use, (_, share) in held_out(data).items() if share is not None and use not in files}
    if sum(shares.values()) >= 1:
        raise BadSetting("data.validation", f"the held-out shares leave nothing to train on: {shares}")
    return shares


def in_parts(
    groups: np.ndarray, shares: Mapping[str, float], file: object, what: str, languages: Languages | None = None
) -> dict[str, np.ndarray]:
    """Boolean masks over the rows of a file, by use: the held-out ones and the training set. Rows of one group
    stay together; each language is split by itself."""
    parts = dict(zip([*shares, "train"], cut(groups, list(shares.values()), languages), strict=True))
    for use, rows in parts.items():
        if not rows.any():
            size = f"{len(groups):,} {what} in {len(np.unique(groups)):,} groups (equal {what} are one group)"
            raise Problem(
                f"{file}: too few to split, {size}: none are left for {use}; name a file, or set another share"
            )
    return parts


def test_or_validation(sets: Mapping[str, Any]) -> dict[str, Any]:
    """The sets for the final evaluation: the validation data if there are no test data."""
    use = "test" if "test" in sets else "validation"
    return {use: sets[use]}
