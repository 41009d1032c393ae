"""Classify: texts of one's own with labels of one's own, from a file or a folder.

    headway train classify data.train=reviews.csv

The file is cut into parts to train, to validate and to test on, unless there are files for them. The tokenizer learns
from the training part alone.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from headway.config.errors import BadSetting, Problem
from headway.config.parts import choose, part
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import LabelledBatch
from headway.data.cache import key_of
from headway.data.corpus import Corpus
from headway.data.download import NAMED, fetch
from headway.data.examples import Reading, plain_texts
from headway.data.files import Progress, read_json, silent
from headway.data.packed_batch import PackedLabelledBatch
from headway.data.readers import Format
from headway.data.samplers import in_turns
from headway.data.sequences import KEEPS, LabelledSequences
from headway.objectives.likelihood import UNCOUNTED
from headway.objectives.smoothing import OBJECTIVES, Objective
from headway.objectives.tally import Tally
from headway.tasks.file_task import OF_TOKENS, FileTask, in_parts
from headway.tasks.labelling import SOFTMAX, Labelling
from headway.tasks.task import Splits

LABELS = "labels.json"


@dataclass(frozen=True)
class ClassifyData:
    name: str | None = setting(None, "a known data set, fetched from its public address; none: files of your own")
    train: str | None = setting(None, "a file of texts with labels, or a folder with a folder for each label")
    validation: str = setting("0.1", "a file, or the share of the training data that is set apart")
    test: str = setting("0.1", "a file, or the share of the training data that is set apart")
    text: str | None = setting(None, "the column of texts; none: found by its name")
    label: str | None = setting(None, "the column of labels; none: found by its name")
    examples: int | None = setting(
        None, "learn from so many of the training data, as many of each class, by the seed; none: all", least=1
    )
    group: str | None = setting(None, "a column; rows that agree in it stay on one side of the cut")
    encoding: str = setting("utf-8", "of the files")
    separator: str | None = setting(None, "of the columns of a CSV file; none: found in its header")
    bad_rows: str = setting("stop", "what to do when a row cannot be read", choices=("stop", "skip"))
    normalize: str = setting("nfkc lower", "what is done to a text first, step by step")
    tokenizer: str = setting("word", "what a token is")
    vocab_size: int = setting(
        50_000, "how many different tokens there are at most", least=1, most=10_000_000, was="vocabulary"
    )
    min_count: int = setting(2, "how often a token must come to be one of them", least=1, was="least_count")
    max_length: int = setting(512, "tokens of a text that are read at most", least=1, was="length")
    keep: str = setting("both", "which end of a longer text is read", choices=tuple(KEEPS))
    objective: str = setting("likelihood(smoothing=0)", "what is trained for")
    packed: bool = setting(False, "whether texts of all lengths stand in one row, without padding")


class Classify(Labelling, FileTask):
    settings = ClassifyData
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.objective": OBJECTIVES}
    example = "a text of your own"

    def __init__(self, recipe: Recipe):
        super().__init__(recipe, ["no", "yes"], SOFTMAX)
        self.length = recipe.data.max_length
        self.objective: Objective = part(OBJECTIVES, recipe.data.objective, "data.objective")

    @staticmethod
    def identity(data: Any) -> dict[str, Any]:
        own = {*OF_TOKENS, "max_length", "keep", "packed", "objective"}
        if data.train:
            own.add("name")  # files of one's own come before it
        return {key: value for key, value in vars(data).items() if key not in own}

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        self.labels = self.train.index.labels
        if len(self.labels) < 2:
            raise Problem(f"{self.train.path}: all labels are {self.labels[0]!r}; a classifier needs two")
        self.use_tokenizer(self.tokenizer_from(self.train, self.parts["train"]))
        super().prepare(progress)

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / LABELS).write_text(json.dumps(self.labels, ensure_ascii=False, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        labels = read_json(folder / LABELS)
        if not isinstance(labels, list) or len(labels) < 2 or not all(isinstance(label, str) for label in labels):
            raise Problem(f"{folder / LABELS} is damaged: it should be a list of labels")
        self.labels = labels

    @property
    def reading(self) -> Reading:
        data = self.recipe.data
        group = NAMED[data.name].group if data.name and not data.train else data.group
        return Reading(
            data.text, data.label, group, True, data.bad_rows == "skip", Format(data.encoding, data.separator)
        )

    def training_files(self) -> dict[str, str]:
        data = self.recipe.data
        if data.train:
            return {"train": data.train}
        if data.name:
            return fetch(choose(NAMED, data.name, "data.name"), self.progress)
        raise BadSetting("data.train", "missing: name a file of texts with labels, such as data.train=reviews.csv")

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """The rows of the training file, as masks: those to train on, and those set apart."""
        parts = in_parts(self.train.index.rows["group"], self.shares, self.files["train"], "rows")
        return parts | {"train": self.some(parts["train"])}

    def some(self, rows: np.ndarray) -> np.ndarray:
        """Of the rows to train on, as many as are asked for; more of them are the same ones and others."""
        wanted, there = self.recipe.data.examples, np.flatnonzero(rows)
        if wanted is None:
            return rows
        if wanted > len(there):
            raise BadSetting("data.examples", f"{wanted:,} are more than the {len(there):,} that there are to train on")
        order = np.random.default_rng([self.recipe.train.seed, 1]).permutation(there)
        chosen = np.zeros_like(rows)
        chosen[in_turns(order, self.train.index.rows["label"][order])[:wanted]] = True
        return chosen

    def open(self, path: str) -> Corpus:
        return Corpus(Path(path), self.reading, self.progress)

    def make_splits(self) -> Splits[LabelledSequences]:
        sets = {use: self.encode(self.train, rows) for use, rows in self.parts.items()}
        texts = {use: self.train.index.rows["text"][rows] for use, rows in self.parts.items()}
        notes = list(self.train.index.notes)
        for use in self.files.keys() - {"train"}:
            corpus = self.source(self.files[use])
            sets[use], texts[use] = self.encode(corpus), corpus.index.rows["text"]
            notes += [note for note in corpus.index.notes if note not in notes]
        notes += [
            *shared_texts(texts),
            *odd_classes(sets, self.labels),
            *odd_lengths(sets["train"], self.recipe.data.keep),
        ]
        return Splits(sets["train"], {"validation": sets["validation"]}, {"test": sets["test"]}, tuple(notes))

    def export_tokens(self, folder: Path) -> dict[str, Any]:
        return super().export_tokens(folder) | self.about_outputs()

    def texts_in(self, path: Path) -> Iterator[str]:
        return plain_texts(path, self.reading)

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, LabelledSequences]:
        self.progress.to = progress
        return {path.name: self.encode(Corpus(path, replace(self.reading, group=None), self.progress))}

    def encode(self, corpus: Corpus, rows: np.ndarray | None = None) -> LabelledSequences:
        """The rows of a corpus, with its labels as the training data number them."""
        encoded, index = corpus.encoded(self.tokenizer), corpus.index
        unknown = [label for label in index.labels if label not in self.labels]
        if unknown:
            raise Problem(
                f"{corpus.path}: the label {unknown[0]!r} is not in the training data ({', '.join(self.labels[:10])})"
            )
        numbers = np.array([self.labels.index(label) for label in index.labels], dtype=np.int64)
        labels = numbers[index.rows["label"]]
        whole = self.limited(LabelledSequences(encoded.tokens, encoded.starts, encoded.sizes, labels=labels))
        places = np.arange(len(whole)) if rows is None else np.flatnonzero(rows)
        return replace(whole.take(places), key=key_of(texts=index.rows["text"][places].tobytes().hex()))

    def loss(self, model: nn.Module, batch: LabelledBatch | PackedLabelledBatch) -> Tally:
        logits = [model(*batch.model_inputs) for _ in range(self.objective.times)]
        return self.objective(torch.cat(logits), batch.targets.clamp(min=0), batch.targets != UNCOUNTED)

    def sequences(self, texts: Sequence[str], labels: Sequence[int] | None = None) -> LabelledSequences:
        return self.limited(LabelledSequences.of(self.tokenizer.encode(texts), labels))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return self.tokenizer.spans(text)

    def limited(self, whole: LabelledSequences) -> LabelledSequences:
        prefix = self.tokenizer.vocabulary.index["[CLS]"] if self.has_cls else None
        how = {"limit": self.length, "keep": self.recipe.data.keep, "packed": self.recipe.data.packed}
        return replace(whole, **how, prefix=prefix)


KEPT = {"head": "the beginning", "tail": "the end", "both": "the beginning and the end"}


def shared_texts(texts: dict[str, np.ndarray]) -> Iterator[str]:
    for use in ("validation", "test"):
        shared = int(np.isin(texts[use], texts["train"]).sum())
        if shared:
            yield f"{shared:,} texts of the {use} data are in the training data too"


def odd_classes(sets: dict[str, LabelledSequences], labels: list[str]) -> Iterator[str]:
    counts = np.bincount(sets["train"].labels, minlength=len(labels))
    if (unseen := int((counts == 0).sum())) > 0:
        yield f"{unseen:,} of {len(labels):,} classes have no example among the training data: they cannot be learned"


def odd_lengths(train: LabelledSequences, keep: str) -> Iterator[str]:
    limit = train.limit or 0
    if (longer := float((train.sizes > limit).mean())) > 0:
        yield f"{longer:.0%} of the texts are longer than {limit} tokens; of these, {KEPT[keep]} is read"
    if (without := int((train.sizes == 0).sum())) > 0:
        yield f"{without:,} texts of the training data have no token that the tokenizer knows of"
