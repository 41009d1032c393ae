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
from typing import Any

import numpy as np

from headway.data.cache import kept, key_of
from headway.data.corpus import Corpus, cut
from headway.data.download import NAMED, fetch
from headway.data.examples import Reading, plain_texts
from headway.data.files import Progress, read_json, silent
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

TOKENIZER, VOCABULARY, LABELS, DATA = "tokenizer.json", "vocabulary.json", "labels.json", "data.json"


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
    example = "a text of your own"
    tokenizer: Tokenizer

    def __init__(self, recipe: Recipe):
        super().__init__(recipe, ["no", "yes"], SOFTMAX)
        self.symbols, self.length = recipe.data.vocabulary, recipe.data.length
        bind(TOKENIZERS, recipe.data.tokenizer, "data.tokenizer")
        normalizer(recipe.data.normalize, "data.normalize")
        self.progress: Progress = silent
        self.corpora: dict[str, Corpus] = {}
        self.contents: dict[str, str] = {}  # the checksums of the files that a run was trained on, by their use

    @staticmethod
    def deciding(data: Any) -> dict[str, Any]:
        own = {"normalize", "tokenizer", "vocabulary", "least_count", "length", "keep"}
        if data.train:
            own.add("name")  # files of one's own come before it
        return {key: value for key, value in vars(data).items() if key not in own}

    def prepare(self, progress: Progress = silent) -> None:
        self.progress = progress
        labels = self.train.index.labels
        if len(labels) < 2:
            raise Problem(f"{self.train.path}: all labels are {labels[0]!r}; to tell classes apart takes two")
        self.learn(self.learned_tokenizer(), labels)
        self.splits(progress)  # what is wrong with the other files is found here, too; all is kept in the cache

    def learn(self, tokenizer: Tokenizer, labels: list[str]) -> None:
        self.tokenizer, self.labels, self.symbols = tokenizer, labels, len(tokenizer)

    def save(self, folder: Path) -> None:
        (folder / TOKENIZER).write_text(self.tokenizer.to_json(), encoding="utf-8")
        self.tokenizer.vocabulary.save(folder / VOCABULARY)
        (folder / LABELS).write_text(json.dumps(self.labels, ensure_ascii=False, indent=0), encoding="utf-8")
        contents = {use: self.corpus(path).content for use, path in self.files.items()}
        (folder / DATA).write_text(json.dumps(contents, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        labels, self.contents = read_json(folder / LABELS), read_json(folder / DATA)
        if not isinstance(labels, list) or len(labels) < 2 or not all(isinstance(label, str) for label in labels):
            raise Problem(f"{folder / LABELS} is damaged: it should be a list of labels")
        self.learn(Tokenizer.load(folder / TOKENIZER), labels)

    @property
    def reading(self) -> Reading:
        data = self.recipe.data
        group = NAMED[data.name].group if data.name and not data.train else data.group
        return Reading(
            data.text, data.label, group, True, data.bad_rows == "skip", Format(data.encoding, data.separator)
        )

    def corpus(self, path: str) -> Corpus:
        """Each file once, so that its checksum is worked out once."""
        if path not in self.corpora:
            self.corpora[path] = Corpus(Path(path), self.reading, lambda what, share: self.progress(what, share))
        return self.corpora[path]

    @cached_property
    def files(self) -> dict[str, str]:
        """The files that are named, by their use."""
        data = self.recipe.data
        held_out = {"validation": data.validation, "test": data.test}
        files = {use: path for use, path in held_out.items() if share(path, f"data.{use}") is None}
        if data.train:
            return {"train": data.train, **files}
        if data.name:
            return fetch(choose(NAMED, data.name, "data.name"), self.progress) | files
        raise BadSetting("data.train", "missing: name a file of texts with labels, such as data.train=reviews.csv")

    @property
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
        self.refuse_changed_files()
        sets = {use: self.encode(self.train, rows) for use, rows in self.parts.items()}
        texts = {use: self.train.index.rows["text"][rows] for use, rows in self.parts.items()}
        notes = list(self.train.index.notes)
        for use in self.files.keys() - {"train"}:
            corpus = self.corpus(self.files[use])
            sets[use], texts[use] = self.encode(corpus), corpus.index.rows["text"]
            notes += [note for note in corpus.index.notes if note not in notes]
        notes += [
            *shared_texts(texts),
            *odd_classes(sets, self.labels),
            *odd_lengths(sets["train"], self.recipe.data.keep),
        ]
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
        places = np.arange(len(whole)) if rows is None else np.flatnonzero(rows)
        return replace(whole.take(places), key=key_of(texts=index.rows["text"][places].tobytes().hex()))

    def refuse_changed_files(self) -> None:
        """A run stands on the rows that it was trained on: in a file that has changed, others would be to test on."""
        for use, content in self.contents.items():
            if use not in self.files or self.corpus(self.files[use]).content != content:
                where = self.files.get(use, "nowhere")
                remedy = "put the old file back, or measure on the new one with evaluate --data"
                raise Problem(f"the data to {VERBS[use]} on, {where}, are not those that the run began with; {remedy}")

    def sequences(self, texts: Sequence[str], labels: list[int]) -> Sequences:
        return self.limited(Sequences.of(self.tokenizer.encode(texts), labels))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return self.tokenizer.spans(text)

    def limited(self, whole: Sequences) -> Sequences:
        prefix = self.tokenizer.vocabulary.index["[CLS]"] if self.has_cls else None
        return Sequences(
            whole.tokens, whole.starts, whole.sizes, whole.labels, self.length, self.recipe.data.keep, prefix
        )


VERBS = {"train": "train", "validation": "validate", "test": "test"}
KEPT = {"head": "the beginning", "tail": "the end", "both": "the beginning and the end"}


def shared_texts(texts: dict[str, np.ndarray]) -> Iterator[str]:
    for use in ("validation", "test"):
        shared = int(np.isin(texts[use], texts["train"]).sum())
        if shared:
            yield f"{shared:,} texts of the {use} data are in the training data too"


def odd_classes(sets: dict[str, Sequences], labels: list[str]) -> Iterator[str]:
    counts = np.bincount(sets["train"].labels, minlength=len(labels))
    if (unseen := int((counts == 0).sum())) > 0:
        yield f"{unseen:,} of {len(labels):,} classes have no example among the training data: they cannot be learned"


def odd_lengths(train: Sequences, keep: str) -> Iterator[str]:
    limit = train.limit or 0
    if (longer := float((train.sizes > limit).mean())) > 0:
        yield f"{longer:.0%} of the texts are longer than {limit} tokens; of these, {KEPT[keep]} is read"
    if (without := int((train.sizes == 0).sum())) > 0:
        yield f"{without:,} texts of the training data have no token that the tokenizer knows of"


def share(text: str, key: str) -> float | None:
    """``0.1`` is a share; anything else is a file."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 < value < 1:
        raise BadSetting(key, f"a share of {text} is not between 0 and 1")
    return value
