"""What tasks over files share: the files by their use, what is held out of them, a tokenizer that is learned from the
training part alone, and the refusal to continue with files that have changed since a run began."""

import json
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.parts import bind
from headway.config.recipe import Recipe
from headway.data.cache import kept, key_of
from headway.data.corpus import Corpus, cut
from headway.data.files import Progress, read_json, silent
from headway.tasks.abilities import Tokenizes
from headway.tasks.task import Splits, Task
from headway.text.normalize import normalizer
from headway.text.tokenizer import TOKENIZERS, Tokenizer

TOKENIZER, DATA = "tokenizer.json", "data.json"
VERBS = {"train": "train", "validation": "validate", "test": "test"}
OF_TOKENS = {"normalize", "tokenizer", "vocab_size", "min_count"}  # settings of how a text becomes tokens


class Source(Protocol):
    """A file of examples, or several."""

    @property
    def name(self) -> str: ...

    @property
    def content(self) -> str:
        """A checksum of what is in it, whatever its name and age."""

    def check(self) -> None:
        """Refuse a file that does not exist or lacks the columns that are asked for."""


class FileTask(Task, Tokenizes):
    """A subclass says where its files are and how one is opened; among its settings are those of ``OF_TOKENS``."""

    tokenizer: Tokenizer

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        bind(TOKENIZERS, recipe.data.tokenizer, "data.tokenizer")
        normalizer(recipe.data.normalize, "data.normalize")
        self.symbols = recipe.data.vocab_size  # how many tokens there are; at most, until they are known
        self.sources: dict[str, Any] = {}  # by path: a file is opened once, and its checksum worked out once
        self.contents: dict[str, str] = {}  # the checksums of the files that a run was trained on, by their use

    @abstractmethod
    def training_files(self) -> dict[str, str]:
        """The file to train on, and those that come with it, by their use."""

    @abstractmethod
    def open(self, path: str) -> Any:
        """A ``Source``."""

    @cached_property
    def files(self) -> dict[str, str]:
        """All files, by their use."""
        return self.training_files() | named_files(self.recipe.data)

    def source(self, path: str) -> Any:
        if path not in self.sources:
            self.sources[path] = self.open(path)
        return self.sources[path]

    @property
    def train(self) -> Any:
        return self.source(self.files["train"])

    @cached_property
    def shares(self) -> dict[str, float]:
        """What is held out of the training data, for the uses that have no file of their own."""
        return held_out_shares(self.recipe.data, self.files)

    def check_files(self) -> None:
        for path in self.files.values():
            self.source(path).check()

    def tokenizer_of(self, side: str) -> Tokenizer:
        return self.tokenizer

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.symbols = tokenizer, len(tokenizer)

    def learn_tokenizer(self, texts: Callable[[], Iterable[str]], **key: Any) -> Tokenizer:
        """From texts, which the ``key`` names; kept in the cache. A run that starts from another one has its tokens."""
        if self.recipe.start is not None:
            return Tokenizer.load(Path(self.recipe.start) / TOKENIZER)
        data = self.recipe.data
        choices: dict[str, Any] = {
            "kind": data.tokenizer,
            "normalize": data.normalize,
            "size": data.vocab_size,
            "least_count": data.min_count,
        }

        def learn(folder: Path) -> None:
            Tokenizer.learn(texts=texts(), **choices).save(folder / TOKENIZER)

        return Tokenizer.load(kept("tokenizers", key_of(**key, **choices), learn) / TOKENIZER)

    def tokenizer_from(self, corpus: Corpus, rows: np.ndarray) -> Tokenizer:
        """Learned from these rows (a mask)."""
        texts = partial(corpus.texts, "learning the words of", rows)
        return self.learn_tokenizer(texts, corpus=corpus.key, rows=np.packbits(rows).tobytes().hex())

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        contents = {use: self.source(path).content for use, path in self.files.items()}
        (folder / DATA).write_text(json.dumps(contents, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        self.contents = read_json(folder / DATA)
        self.use_tokenizer(Tokenizer.load(folder / TOKENIZER))

    def export_tokens(self, folder: Path) -> dict[str, Any]:
        self.tokenizer.save(folder / TOKENIZER)
        return {}

    def splits(self, progress: Progress = silent) -> Splits[Any]:
        self.progress.to = progress
        self.refuse_changed_files()
        return super().splits(progress)

    def refuse_changed_files(self) -> None:
        """A run stands on the rows that it was trained on: in a file that has changed, others would be held out."""
        for use, content in self.contents.items():
            if use not in self.files or self.source(self.files[use]).content != content:
                where = self.files.get(use, "nowhere")
                remedy = "put the old file back, or measure on the new one with evaluate --data"
                raise Problem(f"the data to {VERBS[use]} on, {where}, are not those that the run began with; {remedy}")


def share(text: str, key: str) -> float | None:
    """``0.1`` is a share; anything else is a file."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 < value < 1:
        raise BadSetting(key, f"a share of {text} is not between 0 and 1")
    return value


def held_out(data: Any) -> dict[str, tuple[str, float | None]]:
    """By its use, what a setting says, and the share that it is, if it is one."""
    asked = {"validation": data.validation, "test": data.test}
    return {use: (text, share(text, f"data.{use}")) for use, text in asked.items() if text}


def named_files(data: Any) -> dict[str, str]:
    return {use: text for use, (text, part) in held_out(data).items() if part is None}


def held_out_shares(data: Any, files: Container[str]) -> dict[str, float]:
    """For the uses that have no file of their own."""
    shares = {use: part for use, (_, part) in held_out(data).items() if part is not None and use not in files}
    if sum(shares.values()) >= 1:
        raise BadSetting("data.validation", f"the shares held out leave nothing to train on: {shares}")
    return shares


def in_parts(groups: np.ndarray, shares: Mapping[str, float], file: object, what: str) -> dict[str, np.ndarray]:
    """The rows of a file as masks: those that are held out, by their use, and those to train on."""
    parts = dict(zip([*shares, "train"], cut(groups, list(shares.values())), strict=True))
    for use, rows in parts.items():
        if not rows.any():
            there = f"{len(groups):,} {what} in {len(np.unique(groups)):,} groups (equal ones are one)"
            raise Problem(
                f"{file}: its {there} are too few to split: none are left for {use}; give a file, or another share"
            )
    return parts


def test_or_validation(sets: Mapping[str, Any]) -> dict[str, Any]:
    """What is measured at the end: without test data, the validation data."""
    use = "test" if "test" in sets else "validation"
    return {use: sets[use]}
