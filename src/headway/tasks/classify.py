"""Classify: texts of one's own with labels of one's own, from a file or a folder.

    headway train classify data.train=reviews.csv

The file is cut into parts to train, to validate and to test on, unless there are files for them. The tokenizer learns
from the training part alone.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from headway.data.cache import kept, key_of
from headway.data.corpus import Corpus, cut
from headway.data.download import NAMED, fetch
from headway.data.examples import Reading, plain_texts
from headway.data.files import Progress, silent
from headway.data.sequences import KEEPS, Sequences
from headway.data.sources import Format
from headway.errors import BadSetting, Problem
from headway.parts import bind, choose
from headway.recipe import Recipe
from headway.settings import setting
from headway.tasks.classification import SOFTMAX, Classification
from headway.tasks.task import Splits
from headway.text.normalize import normalizer
from headway.text.tokenizer import TOKENIZERS, Tokenizer

TOKENIZER, VOCABULARY, LABELS = "tokenizer.json", "vocabulary.json", "labels.json"


@dataclass(frozen=True)
class ClassifyData:
    name: str | None = setting(None, "a known data set, fetched from its public address; none: files of your own")
    train: str | None = setting(None, "a file of texts with labels, or a folder with a folder for each label")
    validation: str = setting("0.1", "a file, or the share of the training data that is set apart")
    test: str = setting("0.1", "a file, or the share of the training data that is set apart")
    text: str | None = setting(None, "the column of texts; none: found by its name")
    label: str | None = setting(None, "the column of labels; none: found by its name")
    group: str | None = setting(None, "a column; rows that agree in it stay on one side of the cut")
    encoding: str = setting("utf-8", "of the files")
    separator: str | None = setting(None, "of the columns of a CSV file; none: found in its header")
    bad_rows: str = setting("stop", "what to do when a row cannot be read", choices=("stop", "skip"))
    normalize: str = setting("nfkc lower", "what is done to a text first, step by step")
    tokenizer: str = setting("word", "what a token is")
    vocabulary: int = setting(50_000, "how many different tokens there are at most", least=1)
    least_count: int = setting(2, "how often a token must come to be one of them", least=1)
    length: int = setting(512, "tokens of a text that are read at most", least=1)
    keep: str = setting("both", "which end of a longer text is read", choices=tuple(KEEPS))


class Classify(Classification):
    settings = ClassifyData
    same_tests = True
    example = "a text of your own"
    tokenizer: Tokenizer

    def __init__(self, recipe: Recipe):
        super().__init__(recipe, ["no", "yes"], SOFTMAX)
        self.symbols, self.length = recipe.data.vocabulary, recipe.data.length
        bind(TOKENIZERS, recipe.data.tokenizer, "data.tokenizer")
        normalizer(recipe.data.normalize, "data.normalize")
        self.progress: Progress = silent

    def prepare(self, progress: Progress = silent) -> None:
        self.progress = progress
        self.learn(self.learned_tokenizer(), self.train.index.labels)

    def learn(self, tokenizer: Tokenizer, labels: list[str]) -> None:
        self.tokenizer, self.labels, self.symbols = tokenizer, labels, len(tokenizer)
        if len(labels) < 2:
            raise Problem(f"{self.recipe.data.train}: all labels are {labels[0]!r}; to tell classes apart takes two")

    def save(self, folder: Path) -> None:
        (folder / TOKENIZER).write_text(self.tokenizer.to_json(), encoding="utf-8")
        self.tokenizer.vocabulary.save(folder / VOCABULARY)
        (folder / LABELS).write_text(json.dumps(self.labels, ensure_ascii=False, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        try:
            labels = json.loads((folder / LABELS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Problem(f"{folder / LABELS} cannot be read: {error}") from None
        self.learn(Tokenizer.load(folder / TOKENIZER), labels)

    @property
    def reading(self) -> Reading:
        data = self.recipe.data
        group = NAMED[data.name].group if data.name else data.group
        return Reading(
            data.text, data.label, group, True, data.bad_rows == "skip", Format(data.encoding, data.separator)
        )

    def corpus(self, path: str) -> Corpus:
        return Corpus(Path(path), self.reading, self.progress)

    @cached_property
    def files(self) -> dict[str, str]:
        """The files that are named, by their use."""
        data = self.recipe.data
        held_out = {"validation": data.validation, "test": data.test}
        files = {use: path for use, path in held_out.items() if share(path, f"data.{use}") is None}
        if data.name:
            return files | fetch(choose(NAMED, data.name, "data.name"), self.progress)
        if data.train is None:
            raise BadSetting("data.train", "missing: name a file of texts with labels, such as data.train=reviews.csv")
        return {"train": data.train, **files}

    @cached_property
    def train(self) -> Corpus:
        return self.corpus(self.files["train"])

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """The rows of the training file, as masks: those to train on, and those set apart."""
        data, groups = self.recipe.data, self.train.index.rows["group"]
        shares = {
            use: share(text, f"data.{use}") or 0.0
            for use, text in {"validation": data.validation, "test": data.test}.items()
            if use not in self.files
        }
        if sum(shares.values()) >= 1:
            raise BadSetting("data.validation", f"the shares set apart leave nothing to train on: {shares}")
        parts = dict(zip([*shares, "train"], cut(groups, list(shares.values())), strict=True))
        for use, rows in parts.items():
            if not rows.any():
                few = f"its {len(groups):,} rows in {len(np.unique(groups)):,} groups are too few to cut"
                raise Problem(f"{self.files['train']}: {few}: none are left for {use}; give a file, or another share")
        return parts

    def learned_tokenizer(self) -> Tokenizer:
        """From the rows to train on; kept, so that the next run need not read them again."""
        data, rows = self.recipe.data, self.parts["train"]
        choices = {
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

    def splits(self, progress: Progress = silent) -> Splits:
        self.progress = progress
        sets = {use: self.encode(self.train, rows) for use, rows in self.parts.items()}
        notes = list(self.train.index.notes)
        for use in self.files.keys() - {"train"}:
            corpus = self.corpus(self.files[use])
            sets[use] = self.encode(corpus)
            shared = np.isin(corpus.index.rows["text"], self.train.index.rows["text"][self.parts["train"]]).sum()
            notes += corpus.index.notes
            if shared:
                notes.append(f"{shared:,} texts of {corpus.path} are in the training data too")
        limit = self.recipe.data.length
        longer = float((sets["train"].sizes > limit).mean())
        if longer:
            kept = KEPT[self.recipe.data.keep]
            notes.append(f"{longer:.0%} of the texts are longer than {limit} tokens; of these, {kept} is read")
        return Splits(sets["train"], {"validation": sets["validation"]}, {"test": sets["test"]}, tuple(notes))

    def texts_in(self, path: Path) -> Iterator[str]:
        return plain_texts(path, self.reading)

    def labelled(self, path: Path, progress: Progress = silent) -> Sequences:
        """Other texts with labels, to measure on."""
        self.progress = progress
        return self.encode(Corpus(path, replace(self.reading, group=None), progress))

    def encode(self, corpus: Corpus, rows: np.ndarray | None = None) -> Sequences:
        """The rows of a corpus, with its labels as the training data number them."""
        encoded, index = corpus.encoded(self.tokenizer), corpus.index
        unknown = [label for label in index.labels if label not in self.labels]
        if unknown:
            raise Problem(
                f"{corpus.path}: the label {unknown[0]!r} is not in the training data ({', '.join(self.labels[:10])})"
            )
        numbers = np.array([self.labels.index(label) for label in index.labels], dtype=np.int64)
        starts = np.cumsum(encoded.lengths) - encoded.lengths
        whole = self.limited(Sequences(encoded.tokens, starts, encoded.lengths, numbers[index.rows["label"]]))
        return whole if rows is None else whole.take(np.flatnonzero(rows))

    def sequences(self, texts: Sequence[str], labels: list[int]) -> Sequences:
        return self.limited(Sequences.of(self.tokenizer.encode(texts), labels))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return self.tokenizer.spans(text)

    def limited(self, whole: Sequences) -> Sequences:
        prefix = self.tokenizer.vocabulary.index["[CLS]"] if self.has_cls else None
        return Sequences(
            whole.tokens, whole.starts, whole.sizes, whole.labels, self.length, self.recipe.data.keep, prefix
        )


KEPT = {"head": "the beginning", "tail": "the end", "both": "the beginning and the end"}


def share(text: str, key: str) -> float | None:
    """``0.1`` is a share; anything else is a file."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 < value < 1:
        raise BadSetting(key, f"a share of {text} is not between 0 and 1")
    return value
