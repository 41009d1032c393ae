"""Shared by tasks that learn from unlabelled texts: where the texts are, and which may be trained on."""

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.parts import choose
from headway.config.settings import setting
from headway.data.cache import key_of
from headway.data.corpus import Corpus, Joined
from headway.data.download import NAMED, fetch
from headway.data.examples import Reading
from headway.data.files import Progress, silent
from headway.data.generated import GENERATED, generated
from headway.data.ragged import RaggedTokens
from headway.data.readers import Format, has_header
from headway.data.splitting import READ_ALIKE, shared_with_training
from headway.tasks.file_task import VERBS, FileTask, HasTexts, in_parts

BUILT_IN = {"python": ("stdlib", "*.py")}  # a sysconfig path, and the files there


@dataclass(frozen=True)
class TextsData:
    """Settings of tasks that learn from unlabelled texts."""

    name: str | None = setting(
        None,
        "built-in texts: python (the standard library), imdb (reviews without labels), reviews (generated from a small "
        "grammar), numbers (in words, in many languages); none: your own files",
    )
    train: str | None = setting(None, "a file or a folder of texts")
    validation: str = setting("0.01", "a file, or the share of the training data to hold out")
    test: str | None = setting(None, "a file, or a share of the training data; none: test on the validation data")
    files: str = setting("*", "pattern of the file names to read in a folder")
    text: str | None = setting(None, "name of the text column; none: detect it")
    encoding: str = setting("utf-8", "encoding of the files")
    bad_rows: str = setting("stop", "what to do with unreadable texts", choices=("stop", "skip"))
    normalize: str = setting("", "normalization steps applied to each text")
    tokenizer: str = setting("bpe", "how texts are split into tokens")
    vocab_size: int = setting(8_000, "maximum vocabulary size", least=1, most=10_000_000, was="vocabulary")
    min_count: int = setting(1, "minimum count of a token", least=1, was="least_count")


@dataclass(frozen=True)
class UnlabelledData(TextsData):
    train: str | None = setting(None, "files or folders of texts, separated by commas")
    exclude: str | None = setting(
        None,
        "a file of texts to exclude from training, such as test data; none: for imdb its test set",
        was="without",
    )


class TextsTask(FileTask, HasTexts):
    columns = ("text",)

    @property
    def reading(self) -> Reading:
        return whole_texts(self.recipe.data)

    def training_files(self) -> dict[str, str]:
        return files_of_texts(self.recipe.data, self.progress)

    def open(self, path: str) -> Corpus:
        """``a.txt,b.txt`` is the concatenation of both."""
        if "," in path and not os.path.exists(path):  # together they may be too long for a name
            return Joined([self.source(each.strip()) for each in path.split(",")])
        return Corpus(Path(path), self.reading, self.progress)

    def shared_texts(self) -> Iterator[str]:
        """Notes about texts of other files that are also trained on, but for case, punctuation and spaces."""
        rows = {use: self.source(path).index.rows for use, path in self.files.items()}
        rows["train"] = rows["train"][self.parts["train"]]
        return shared_with_training({use: np.unique(own["read"]) for use, own in rows.items()}, "texts", READ_ALIKE)

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        self.use_tokenizer(self.tokenizer_from(self.train, self.parts["train"]))
        super().prepare(progress)


class Unlabelled(TextsTask):
    @cached_property
    def excluded_file(self) -> str | None:
        """The file of texts to exclude from training; for a known data set its test data."""
        data = self.recipe.data
        if data.exclude is not None or data.train or data.name not in NAMED:
            return data.exclude
        return fetch(NAMED[data.name], self.progress)["test"]

    @cached_property
    def allowed(self) -> np.ndarray:
        """(rows,): whether a text may be trained on."""
        index = self.train.index
        if self.excluded_file is None:
            return np.ones(len(index.rows), bool)
        excluded = self.source(self.excluded_file).index
        if not self.splits_as_read:
            return ~np.isin(index.wholes, excluded.wholes)
        return ~np.isin(index.rows["read"], excluded.rows["read"])

    @cached_property
    def is_one_text(self) -> bool:
        """Then its end is held out."""
        return bool(self.shares) and len(np.unique(self.train.index.rows["line"])) == 1

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Boolean masks over the rows of the training files, by use. For a single text the training mask only selects
        what the tokenizer is learned from."""
        if self.is_one_text:
            pieces = len(self.train.index.rows)
            own = np.arange(pieces) < max(int(pieces * (1 - sum(self.shares.values()))), 1)
            return {**dict.fromkeys(self.shares, ~own), "train": own}
        parts = in_parts(self.groups(self.train), self.shares, self.files["train"], "texts", self.languages)
        train = parts["train"] & self.allowed
        if not train.any():
            raise BadSetting("data.exclude", "it contains every text: nothing is left to train on")
        return parts | {"train": train}

    def whole(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> RaggedTokens:
        """The texts of these rows (None: all). Rows of one line are pieces of one text."""
        encoded, lines = corpus.encoded(self.tokenizer), corpus.index.rows["line"]
        is_one = self.is_one_text and corpus is self.train
        chosen = np.ones(len(lines), bool) if rows is None or is_one else rows
        begins = np.flatnonzero(np.diff(lines, prepend=-1) != 0)
        sizes = np.add.reduceat(np.where(chosen, encoded.sizes, 0), begins)
        starts = encoded.starts[begins]
        long_enough = sizes > 1
        if not long_enough.any():
            raise Problem(f"{corpus.path}: no text has two tokens: there is nothing to {VERBS[use]} on")
        languages = corpus.index.languages.take(begins[long_enough]) if self.languages is not None else None
        which = np.packbits(chosen).tobytes().hex()
        key = key_of(corpus=corpus.key, use=use, rows=which, tokenizer=self.tokenizer.to_json())
        texts = RaggedTokens(encoded.tokens, starts[long_enough], sizes[long_enough], key, languages)
        return self.cut(texts, use) if is_one else texts

    def cut(self, text: RaggedTokens, use: str) -> RaggedTokens:
        """A single text is trained on up to where the held-out parts begin."""
        shares = {"train": 1 - sum(self.shares.values()), **self.shares}
        ends = np.cumsum([0.0, *shares.values()])
        index = list(shares).index(use)
        first, last = (round(int(text.sizes[0]) * end) for end in ends[index : index + 2])
        if last - first < 2:
            few = f"a single text of {int(text.sizes[0]):,} tokens is too short to split: none are left for {use}"
            raise Problem(f"{self.train.path}: {few}; name a file, or set another share (data.{use})")
        return replace(text, starts=text.starts + first, sizes=np.array([last - first]))

    def notes(self) -> list[str]:
        notes = [*self.train.index.notes, *self.shared_texts()]
        if excluded := len(np.unique(self.train.index.rows["line"][~self.allowed])):
            notes.append(f"{excluded:,} texts are in {self.excluded_file} and are not trained on")
        return notes


def built_in(name: str) -> tuple[str, str]:
    """A folder of this Python installation, and the pattern of its text files."""
    name_of_path, files = choose(BUILT_IN | dict.fromkeys([*NAMED, "reviews", "numbers"], ("", "")), name, "data.name")
    return sysconfig.get_paths()[name_of_path], files


def files_of_texts(data: Any, progress: Progress) -> dict[str, str]:
    """The user's own files, a known data set, or built-in texts."""
    if data.train:
        return {"train": data.train}
    if data.name in NAMED:
        return {"train": fetch(NAMED[data.name], progress)["train"]}
    if data.name in GENERATED:
        return {"train": str(generated(data.name))}
    if data.name:
        return {"train": built_in(data.name)[0]}
    raise BadSetting("data.train", "missing: name a file or folder of texts, or set data.name=python")


def whole_texts(data: Any) -> Reading:
    """How unlabelled texts are read: a plain text file is one text."""
    own = data.train is not None or data.name is None or data.name in GENERATED
    files = data.files if own else NAMED[data.name].texts if data.name in NAMED else built_in(data.name)[1]
    skips = not own or data.bad_rows == "skip"  # not every file of an installation is readable text
    form = Format(data.encoding, None, True, files, header=has_header(data.text))
    return Reading(data.text, has_labels=False, skip_bad=skips, normalize=data.normalize, format=form)
