"""Classify: your own texts with your own labels, from a file or a folder.

    headway train classify data.train=reviews.csv
    headway train languages data.train=texts.csv

The file is split into training, validation and test data, unless there are separate files. The tokenizer is learned
from the training data only.
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

from headway.baselines.documents import Documents, Words
from headway.config.errors import BadSetting, Problem
from headway.config.json_files import read_json
from headway.config.parts import choose, part
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import LabelledBatch
from headway.data.cache import key_of
from headway.data.corpus import Corpus
from headway.data.download import NAMED, fetch
from headway.data.examples import Reading, plain_texts
from headway.data.files import Progress, silent
from headway.data.generated import generated
from headway.data.packed_batch import PackedLabelledBatch
from headway.data.readers import Format
from headway.data.samplers import in_turns
from headway.data.sequences import KEEPS, LabelledSequences, shared_sequences
from headway.objectives.likelihood import OBJECTIVES, UNCOUNTED, Objective
from headway.objectives.tally import Tally
from headway.tasks.file_task import in_parts
from headway.tasks.labelling import SOFTMAX, Labelling
from headway.tasks.multilingual import Multilingual, MultilingualData
from headway.tasks.task import Splits

LABELS = "labels.json"
LABELLED = ("numbers",)  # of the generated data


@dataclass(frozen=True)
class ClassifyData(MultilingualData):
    name: str | None = setting(
        None,
        "imdb (50,000 reviews to download), numbers (generated: in words, in many languages); none: your own files",
    )
    train: str | None = setting(None, "a file of labelled texts, or a folder with one subfolder per label")
    validation: str = setting("0.1", "a file, or the share of the training data to hold out")
    test: str = setting("0.1", "a file, or the share of the training data to hold out")
    text: str | None = setting(None, "name of the text column; none: detect it")
    label: str | None = setting(None, "name of the label column; none: detect it")
    examples: int | None = setting(
        None, "number of training examples, balanced over the classes, drawn by the seed; none: all", least=1
    )
    group: str | None = setting(None, "a column: rows with the same value stay in the same split")
    encoding: str = setting("utf-8", "encoding of the files")
    separator: str | None = setting(None, "column separator of a CSV file; none: detect it in the header")
    bad_rows: str = setting("stop", "what to do with unreadable rows", choices=("stop", "skip"))
    normalize: str = setting("nfkc lower", "normalization steps applied to each text")
    tokenizer: str = setting("word", "how texts are split into tokens")
    vocab_size: int = setting(50_000, "maximum vocabulary size", least=1, most=10_000_000, was="vocabulary")
    min_count: int = setting(2, "minimum count of a token", least=1, was="least_count")
    max_length: int = setting(512, "maximum tokens per text; longer texts are truncated", least=1, was="length")
    keep: str = setting("both", "which end of a longer text to keep", choices=tuple(KEEPS))
    objective: str = setting("likelihood(smoothing=0)", "training objective")
    packed: bool = setting(False, "pack texts of all lengths into one row, without padding")


class Classify(Labelling, Multilingual):
    settings = ClassifyData
    encoding_settings = frozenset({"max_length", "keep", "packed", "objective"}) | Multilingual.mixing_settings
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.objective": OBJECTIVES, **Multilingual.tables}
    example = "a text of your own"

    def __init__(self, recipe: Recipe):
        super().__init__(recipe, ["no", "yes"], SOFTMAX)
        self.length = recipe.data.max_length
        self.objective: Objective = part(OBJECTIVES, recipe.data.objective, "data.objective")
        self.origins: dict[str, tuple[Corpus, np.ndarray]] = {}  # by key of a data set: where its texts are

    @classmethod
    def identity(cls, data: Any) -> dict[str, Any]:
        settings = super().identity(data)
        if data.train:
            del settings["name"]  # the user's own files take precedence
        return settings

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        self.labels = self.train.index.labels
        if len(self.labels) < 2:
            raise Problem(f"{self.train.path}: all labels are {self.labels[0]!r}; a classifier needs at least two")
        self.use_tokenizer(self.tokenizer_from(self.train, self.parts["train"]))
        super().prepare(progress)

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / LABELS).write_text(json.dumps(self.labels, ensure_ascii=False, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        self.labels = read_json(folder / LABELS, [str])
        if len(set(self.labels)) < max(len(self.labels), 2):
            raise Problem(f"{folder / LABELS} is damaged: expected at least two different labels")

    @property
    def reading(self) -> Reading:
        data = self.recipe.data
        group = NAMED[data.name].group if data.name in NAMED and not data.train else data.group
        return Reading(
            data.text,
            data.label,
            group,
            data.language,
            skip_bad=data.bad_rows == "skip",
            normalize=data.normalize,
            format=Format(data.encoding, data.separator),
        )

    def training_files(self) -> dict[str, str]:
        data = self.recipe.data
        if data.train:
            return {"train": data.train}
        if data.name:
            choose(NAMED | dict.fromkeys(LABELLED), data.name, "data.name")
            is_made = data.name in LABELLED
            return {"train": str(generated(data.name))} if is_made else fetch(NAMED[data.name], self.progress)
        raise BadSetting("data.train", "missing: name a file of labelled texts, such as data.train=reviews.csv")

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Boolean masks over the rows of the training file, by use."""
        parts = in_parts(self.groups(self.train), self.shares, self.files["train"], "rows", self.languages)
        return parts | {"train": self.subset(parts["train"])}

    def subset(self, rows: np.ndarray) -> np.ndarray:
        """``data.examples`` of the training rows; a larger subset contains the smaller ones."""
        count, indices = self.recipe.data.examples, np.flatnonzero(rows)
        if count is None:
            return rows
        if count > len(indices):
            raise BadSetting("data.examples", f"{count:,} is more than the {len(indices):,} training examples")
        order = np.random.default_rng([self.recipe.train.seed, 1]).permutation(indices)
        chosen = np.zeros_like(rows)
        chosen[in_turns(order, self.train.index.rows["label"][order])[:count]] = True
        return chosen

    def open(self, path: str) -> Corpus:
        return Corpus(Path(path), self.reading, self.progress)

    def make_splits(self) -> Splits[LabelledSequences]:
        sets = {use: self.encode(self.train, rows) for use, rows in self.parts.items()}
        notes = list(self.train.index.notes)
        for use in self.files.keys() - {"train"}:
            corpus = self.source(self.files[use])
            sets[use] = self.encode(corpus)
            notes += [note for note in corpus.index.notes if note not in notes]
        notes += [
            *shared_sequences(sets),
            *odd_classes(sets, self.labels),
            *odd_lengths(sets["train"], self.recipe.data.keep),
        ]
        notes += self.language_notes(sets)
        train = replace(sets["train"], mixture=self.mixture if self.is_multilingual else None)
        return Splits(train, self.old_and_new(sets["validation"]), {"test": sets["test"]}, tuple(notes))

    def export_tokens(self, folder: Path) -> dict[str, Any]:
        return super().export_tokens(folder) | self.about_outputs()

    def texts_in(self, path: Path) -> Iterator[str]:
        return plain_texts(path, self.reading)

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, LabelledSequences]:
        self.progress.to = progress
        return {path.name: self.encode(Corpus(path, replace(self.reading, group=None), self.progress))}

    def encode(self, corpus: Corpus, rows: np.ndarray | None = None) -> LabelledSequences:
        """These rows of a corpus (None: all), with label indices as in the training data."""
        encoded, index = corpus.encoded(self.tokenizer), corpus.index
        unknown = [label for label in index.labels if label not in self.labels]
        if unknown:
            raise Problem(
                f"{corpus.path}: the label {unknown[0]!r} is not in the training data ({', '.join(self.labels[:10])})"
            )
        numbers = np.array([self.labels.index(label) for label in index.labels], dtype=np.int64)
        labels = numbers[index.rows["label"]]
        languages = index.languages if self.is_multilingual else None
        texts = LabelledSequences(encoded.tokens, encoded.starts, encoded.sizes, languages=languages, labels=labels)
        whole = self.limited(texts)
        chosen = np.ones(len(whole), bool) if rows is None else rows
        indices = np.flatnonzero(chosen)
        key = key_of(texts=index.rows["text"][indices].tobytes().hex())
        self.origins[key] = corpus, chosen
        return replace(whole.take(indices), key=key)

    def documents(self, data: LabelledSequences, words: Words, is_training: bool = False) -> Documents:
        """The words of the texts as they are in the file, whatever tokenizer a network has."""
        corpus, rows = self.origins[data.key]
        texts = corpus.texts("reading the words of", rows)
        return words.learn(texts) if is_training else words.read(texts)

    def loss(self, model: nn.Module, batch: LabelledBatch | PackedLabelledBatch) -> Tally:
        logits = [model(*batch.model_inputs) for _ in range(self.objective.times)]
        return self.objective(torch.cat(logits), batch.targets.clamp(min=0), batch.targets != UNCOUNTED)

    def sequences(self, texts: Sequence[str], labels: Sequence[int] | None = None) -> LabelledSequences:
        return self.limited(LabelledSequences.of(self.tokenizer.encode(texts), labels))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return self.tokenizer.spans(text)

    def limited(self, whole: LabelledSequences) -> LabelledSequences:
        prefix = self.tokenizer.vocabulary.index["[CLS]"] if self.has_cls else None
        options = {"limit": self.length, "keep": self.recipe.data.keep, "packed": self.recipe.data.packed}
        return replace(whole, **options, prefix=prefix)


KEPT = {"head": "the beginning", "tail": "the end", "both": "the beginning and the end"}


def odd_classes(sets: dict[str, LabelledSequences], labels: list[str]) -> Iterator[str]:
    counts = np.bincount(sets["train"].labels, minlength=len(labels))
    if (unseen := int((counts == 0).sum())) > 0:
        yield f"{unseen:,} of {len(labels):,} classes have no training examples: they cannot be learned"


def odd_lengths(train: LabelledSequences, keep: str) -> Iterator[str]:
    limit = train.limit or 0
    if (longer := float((train.sizes > limit).mean())) > 0:
        yield f"{longer:.0%} of the texts are longer than {limit} tokens; only {KEPT[keep]} is used"
    if (without := int((train.sizes == 0).sum())) > 0:
        yield f"{without:,} training texts have no known token"
