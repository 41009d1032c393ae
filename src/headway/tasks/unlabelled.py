"""What tasks share that learn from texts without labels: where these are, and which of them may be learned from."""

import sysconfig
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
from headway.data.files import Progress
from headway.data.generated import GENERATED, generated
from headway.data.ragged import RaggedTokens
from headway.data.readers import Format
from headway.tasks.file_task import VERBS, FileTask, in_parts

BUILT_IN = {"python": ("stdlib", "*.py")}  # a path of this Python, and the files there


@dataclass(frozen=True)
class TextsData:
    """The settings of tasks that learn from texts without labels."""

    name: str | None = setting(
        None,
        "python: the standard library of this machine; imdb: its reviews without labels; reviews: those of a small "
        "grammar, made on the spot; none: files of your own",
    )
    train: str | None = setting(None, "a file or a folder of texts")
    validation: str = setting("0.01", "a file, or the share of the training data that is set apart")
    test: str | None = setting(None, "a file, or a share; none: the validation data are all that is measured on")
    files: str = setting("*", "of a folder, the names of the files that are texts")
    text: str | None = setting(None, "of a file with columns, that of texts; none: found by its name")
    encoding: str = setting("utf-8", "of the files")
    bad_rows: str = setting("stop", "what to do when a text cannot be read", choices=("stop", "skip"))
    normalize: str = setting("", "what is done to a text first, step by step")
    tokenizer: str = setting("bpe", "what a token is")
    vocab_size: int = setting(
        8_000, "how many different tokens there are at most", least=1, most=10_000_000, was="vocabulary"
    )
    min_count: int = setting(1, "how often a token must come to be one of them", least=1, was="least_count")


@dataclass(frozen=True)
class UnlabelledData(TextsData):
    train: str | None = setting(None, "files or folders of texts, with commas between them")
    exclude: str | None = setting(
        None,
        "a file of texts that are left out of training, such as those to be tested on; none: of imdb its test set",
        was="without",
    )


class Unlabelled(FileTask):
    @property
    def reading(self) -> Reading:
        return whole_texts(self.recipe.data)

    def training_files(self) -> dict[str, str]:
        return files_of_texts(self.recipe.data, self.progress)

    @cached_property
    def left_out(self) -> str | None:
        """A file of texts that are not learned from; of a known set, those to test on."""
        data = self.recipe.data
        if data.exclude is not None or data.train or data.name not in NAMED:
            return data.exclude
        return fetch(NAMED[data.name], self.progress)["test"]

    def open(self, path: str) -> Corpus:
        """``a.txt,b.txt`` is both, one behind the other."""
        if "," in path:
            return Joined([self.source(each.strip()) for each in path.split(",")])
        return Corpus(Path(path), self.reading, self.progress)

    @cached_property
    def wanted(self) -> np.ndarray:
        """(rows,): whether a text may be learned from."""
        texts = self.train.index.wholes
        if self.left_out is None:
            return np.ones(len(texts), bool)
        return ~np.isin(texts, self.source(self.left_out).index.wholes)

    @cached_property
    def is_one_text(self) -> bool:
        """Then its end is set apart."""
        return bool(self.shares) and len(np.unique(self.train.index.rows["line"])) == 1

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """The rows of the training files, as masks: those to train on, and those set apart. Of one text, there are only
        those to learn the tokens from."""
        if self.is_one_text:
            pieces = len(self.train.index.rows)
            own = np.arange(pieces) < max(int(pieces * (1 - sum(self.shares.values()))), 1)
            return {**dict.fromkeys(self.shares, ~own), "train": own}
        parts = in_parts(self.train.index.rows["group"], self.shares, self.files["train"], "texts")
        train = parts["train"] & self.wanted
        if not train.any():
            raise BadSetting("data.exclude", "every text is in it: there is nothing left to train on")
        return parts | {"train": train}

    def whole(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> RaggedTokens:
        """The texts of these rows, or all; rows of one line are pieces of one text."""
        encoded, lines = corpus.encoded(self.tokenizer), corpus.index.rows["line"]
        is_one = self.is_one_text and corpus is self.train
        chosen = np.ones(len(lines), bool) if rows is None or is_one else rows
        begins = np.flatnonzero(np.diff(lines, prepend=-1) != 0)
        sizes = np.add.reduceat(np.where(chosen, encoded.sizes, 0), begins)
        starts = encoded.starts[begins]
        there = sizes > 1
        if not there.any():
            raise Problem(f"{corpus.path}: no text has two tokens: there is nothing to {VERBS[use]} on")
        which = np.packbits(chosen).tobytes().hex()
        key = key_of(corpus=corpus.key, use=use, rows=which, tokenizer=self.tokenizer.to_json())
        found = RaggedTokens(encoded.tokens, starts[there], sizes[there], key)
        return self.stretch(found, use) if is_one else found

    def stretch(self, text: RaggedTokens, use: str) -> RaggedTokens:
        """Of one text: the beginning to train on, and behind it what is set apart."""
        shares = {"train": 1 - sum(self.shares.values()), **self.shares}
        ends = np.cumsum([0.0, *shares.values()])
        place = list(shares).index(use)
        first, last = (round(int(text.sizes[0]) * end) for end in ends[place : place + 2])
        if last - first < 2:
            few = f"its {int(text.sizes[0]):,} tokens are one text, and too few to cut: none are left for {use}"
            raise Problem(f"{self.train.path}: {few}; give a file, or another share (data.{use})")
        return replace(text, starts=text.starts + first, sizes=np.array([last - first]))

    def notes(self) -> list[str]:
        found = list(self.train.index.notes)
        if left_out := len(np.unique(self.train.index.rows["line"][~self.wanted])):
            found.append(f"{left_out:,} texts are in {self.left_out} and are left out")
        return found


def built_in(name: str) -> tuple[str, str]:
    """A folder that this machine has, and the names of the files there that are texts."""
    place, files = choose(BUILT_IN | dict.fromkeys([*NAMED, "reviews"], ("", "")), name, "data.name")
    return sysconfig.get_paths()[place], files


def files_of_texts(data: Any, progress: Progress) -> dict[str, str]:
    """Where texts without labels are: files of one's own, those of a known set, or those of this machine."""
    if data.train:
        return {"train": data.train}
    if data.name in NAMED:
        return {"train": fetch(NAMED[data.name], progress)["train"]}
    if data.name in GENERATED:
        return {"train": str(generated(data.name))}
    if data.name:
        return {"train": built_in(data.name)[0]}
    raise BadSetting("data.train", "missing: name a file or a folder of texts, or set data.name=python")


def whole_texts(data: Any) -> Reading:
    """How texts without labels are read: a file of plain text is one of them."""
    own = data.train is not None or data.name is None or data.name in GENERATED
    files = data.files if own else NAMED[data.name].texts if data.name in NAMED else built_in(data.name)[1]
    skips = not own or data.bad_rows == "skip"  # not everything that a machine has is a text
    return Reading(data.text, None, None, False, skips, Format(data.encoding, None, True, files))
