"""What tasks over files of texts share: the files by their use, a tokenizer that learns from the training part alone,
and the refusal to go on with files that have changed since."""

import json
from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headway.config.errors import Problem
from headway.config.parts import bind
from headway.data.cache import kept, key_of
from headway.data.corpus import Corpus
from headway.data.examples import Reading
from headway.data.files import Progress, read_json, silent
from headway.tasks.held_out import named_files, shares_of
from headway.tasks.task import Task
from headway.text.normalize import normalizer
from headway.text.tokenizer import TOKENIZERS, Tokenizer

TOKENIZER, VOCABULARY, DATA = "tokenizer.json", "vocabulary.json", "data.json"
VERBS = {"train": "train", "validation": "validate", "test": "test"}
OF_TOKENS = {"normalize", "tokenizer", "vocabulary", "least_count"}  # settings of how a text becomes tokens


class TextFiles(Task):
    """A subclass says where its files are and how they are read; among its settings are those of ``OF_TOKENS``."""

    tokenizer: Tokenizer

    @property
    @abstractmethod
    def reading(self) -> Reading: ...

    @abstractmethod
    def training_files(self) -> dict[str, str]:
        """The files that are there without being named as files to measure on, by their use."""

    def set_up(self) -> None:
        bind(TOKENIZERS, self.recipe.data.tokenizer, "data.tokenizer")
        normalizer(self.recipe.data.normalize, "data.normalize")
        self.progress: Progress = silent
        self.corpora: dict[str, Corpus] = {}
        self.contents: dict[str, str] = {}  # the checksums of the files that a run was trained on, by their use

    @cached_property
    def files(self) -> dict[str, str]:
        """The files that are named, by their use."""
        return self.training_files() | named_files(self.recipe.data)

    def corpus(self, path: str) -> Corpus:
        """Each file once, so that its checksum is worked out once."""
        if path not in self.corpora:
            self.corpora[path] = Corpus(Path(path), self.reading, lambda what, share: self.progress(what, share))
        return self.corpora[path]

    def look(self) -> None:
        for path in self.files.values():
            _ = self.corpus(path).columns

    @property
    def train(self) -> Corpus:
        return self.corpus(self.files["train"])

    @cached_property
    def shares(self) -> dict[str, float]:
        """What is set apart of the training data, for the uses that have no file of their own."""
        return shares_of(self.recipe.data, self.files)

    def learned_tokenizer(self, rows: np.ndarray) -> Tokenizer:
        """From these rows of the training file; kept, so that the next run need not read them again. A run that begins
        with another one has its tokens."""
        data = self.recipe.data
        if self.recipe.start is not None:
            return Tokenizer.load(Path(self.recipe.start) / TOKENIZER)
        choices: dict[str, Any] = {
            "kind": data.tokenizer,
            "normalize": data.normalize,
            "size": data.vocabulary,
            "least_count": data.least_count,
        }

        def learn(folder: Path) -> None:
            texts = self.train.texts("learning the words of", rows)
            (folder / TOKENIZER).write_text(Tokenizer.learn(texts=texts, **choices).to_json(), encoding="utf-8")

        key = key_of(corpus=self.train.key, rows=np.packbits(rows).tobytes().hex(), **choices)
        return Tokenizer.load(kept("tokenizers", key, learn) / TOKENIZER)

    def save_files(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.tokenizer.vocabulary.save(folder / VOCABULARY)
        contents = {use: self.corpus(path).content for use, path in self.files.items()}
        (folder / DATA).write_text(json.dumps(contents, indent=0), encoding="utf-8")

    def restore_files(self, folder: Path) -> None:
        self.contents = read_json(folder / DATA)
        self.tokenizer = Tokenizer.load(folder / TOKENIZER)

    def refuse_changed_files(self) -> None:
        """A run stands on the rows that it was trained on: in a file that has changed, others would be to test on."""
        for use, content in self.contents.items():
            if use not in self.files or self.corpus(self.files[use]).content != content:
                where = self.files.get(use, "nowhere")
                remedy = "put the old file back, or measure on the new one with evaluate --data"
                raise Problem(f"the data to {VERBS[use]} on, {where}, are not those that the run began with; {remedy}")
