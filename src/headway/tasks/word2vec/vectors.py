"""Vectors: what a word means, by the words that it stands among.

headway vectors train data.train=novels.txt
headway vectors nearest runs/vectors-1 captain
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from headway.config.errors import BadSetting, Problem
from headway.config.parts import part
from headway.config.recipe import Recipe, TrainSpec
from headway.config.settings import setting
from headway.data.corpus import Corpus
from headway.data.files import Progress, silent
from headway.data.ragged import RaggedTokens
from headway.objectives.tally import Tally
from headway.tasks.abilities import HasWordVectors, TrainsItself
from headway.tasks.file_task import OF_TOKENS, test_or_validation
from headway.tasks.task import Splits
from headway.tasks.unlabelled import Unlabelled, UnlabelledData
from headway.tasks.word2vec.loop import VectorLoop, engine_of
from headway.tasks.word2vec.model import NO_WAYS, Shape, WordVectors, huffman
from headway.tasks.word2vec.ngrams import Ngrams, units_of
from headway.tasks.word2vec.phrases import Phrases, joined
from headway.tasks.word2vec.table import Buckets, Table
from headway.tasks.word2vec.windows import NO_BORDER, StretchSampler, WordBatch, Words
from headway.text.tokenizer import LINE_END
from headway.text.vocabulary import SPECIALS

LONGEST = 1000  # words of a text; a longer one is several
# Settings of how other models learn.
WITHOUT = (
    *("accumulate", "average", "grad_clip", "compile", "freeze", "layer_decay", "optimizer", "precision", "processes"),
    *("cuda_graphs", "batch_tokens", "weight_decay"),
)
MOST = 1000  # negatives: the product of so many factors of up to 2 is still a number
MEASURED = 10_000  # words that are measured on, where nothing is set apart


class Softmax(NamedTuple):
    """How a word is told from all others."""

    kind: str
    negatives: int = 0
    power: float = 0.75


def negative(count: int = 5, power: float = 0.75) -> Softmax:
    if not 1 <= count <= MOST:
        raise Problem(f"{count} negatives are too {'few' if count < 1 else 'many'}: from 1 to {MOST}")
    return Softmax("negative", count, power)


SOFTMAXES: dict[str, Callable[..., Softmax]] = {
    "full": lambda: Softmax("full"),
    "negative": negative,
    "hierarchical": lambda: Softmax("hierarchical"),
}
UNITS: dict[str, Callable[..., Ngrams | None]] = {"words": lambda: None, "ngrams": Ngrams}
PHRASES: dict[str, Callable[..., Phrases]] = {"none": lambda: Phrases(passes=0), "scored": Phrases}


@dataclass(frozen=True)
class VectorsData(UnlabelledData):
    validation: str | None = setting(  # type: ignore[assignment]
        None, "a file, or a share to set apart; none: the first words of the training data are measured on"
    )
    normalize: str = setting("nfkc lower", "what is done to a text first, step by step")
    tokenizer: str = setting("word(signs=False, lines=True)", "what a token is; windows end where a line does")
    vocab_size: int = setting(
        1_000_000, "how many different words there are at most", least=1, most=10_000_000, was="vocabulary"
    )
    min_count: int = setting(5, "how often a word must come to be one of them", least=1, was="least_count")
    objective: str = setting("skipgram", "which is looked from: one, or all around", choices=("skipgram", "cbow"))
    softmax: str = setting("negative(count=5)", "how a word is told from all others")
    units: str = setting("words", "what the vector of a word is made of")
    phrases: str = setting("none", "whether words that stand side by side often are one")
    window: int = setting(5, "words on either side that are looked at, at most", least=1, most=1000)
    sample: float = setting(1e-3, "words that are more than this share of the text are thinned out; 0: none", least=0)


class WordVectorsTask(Unlabelled, HasWordVectors, TrainsItself):
    settings = VectorsData
    metric_names = ("loss",)
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "data.softmax": SOFTMAXES,
        "data.units": UNITS,
        "data.phrases": PHRASES,
    }

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        for key in WITHOUT:
            if getattr(recipe.train, key) not in (None, getattr(TrainSpec(), key)):
                raise BadSetting(f"train.{key}", "word vectors are learned a word at a time, without it: leave it out")
        self.softmax: Softmax = part(SOFTMAXES, recipe.data.softmax, "data.softmax")
        self.ngrams: Ngrams | None = part(UNITS, recipe.data.units, "data.units")
        self.phrases: Phrases = part(PHRASES, recipe.data.phrases, "data.phrases")
        self.pairs: list[np.ndarray] = []  # of words that are phrases, pass by pass
        self.words = [*SPECIALS]  # as long as they are not known
        self.counts = np.ones(len(self.words), np.int64)

    @staticmethod
    def identity(data: Any) -> dict[str, Any]:
        own = {*OF_TOKENS, "objective", "softmax", "units", "phrases", "window", "sample"}
        return {key: value for key, value in vars(data).items() if key not in own}

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        self.use_tokenizer(self.tokenizer_from(self.train, self.parts["train"]))
        whole = self.whole(self.train, "train", self.parts["train"]).split_long(LONGEST)
        counts = self.counted(whole)
        for _ in range(self.phrases.passes):
            pairs = self.phrases.found(whole, counts)
            self.pairs.append(pairs)
            whole = joined(whole, pairs, len(counts))
            counts = self.counted(whole)
        self.learn(counts)

    def counted(self, whole: RaggedTokens) -> np.ndarray:
        """How often each word and phrase comes; what stands for no word does not count."""
        size = len(self.tokenizer) + sum(len(pairs) for pairs in self.pairs)
        counts = whole.counts(size)
        counts[: len(self.tokenizer)][self.tokenizer.is_special] = 0
        if self.border >= 0:
            counts[self.border] = 0
        return counts

    @property
    def border(self) -> int:
        """What windows do not reach across: the end of a line, if it is a token."""
        return self.tokenizer.vocabulary.index.get(LINE_END, NO_BORDER)

    def learn(self, counts: np.ndarray) -> None:
        self.words, self.counts = list(self.tokenizer.vocabulary.symbols), counts
        for pairs in self.pairs:
            self.words += [f"{self.words[left]}_{self.words[right]}" for left, right in pairs]
        if (counts > 0).sum() < 2:
            raise Problem(f"{self.files['train']}: fewer than two words come often enough; lower data.min_count")

    def save(self, folder: Path) -> None:
        super().save(folder)
        np.save(folder / "counts.npy", self.counts)
        for number, pairs in enumerate(self.pairs):
            np.save(folder / f"phrases-{number}.npy", pairs)

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        self.pairs = [numbers_in(folder / f"phrases-{number}.npy") for number in range(self.phrases.passes)]
        self.learn(numbers_in(folder / "counts.npy"))

    @property
    def example(self) -> str:  # type: ignore[override]
        """The most frequent word."""
        return self.words[int(self.counts.argmax())]

    def make_splits(self) -> Splits[Words]:
        sets = {use: self.running(self.train, use, rows) for use, rows in self.parts.items()}
        for use in self.files.keys() - {"train"}:
            sets[use] = self.running(self.source(self.files[use]), use)
        if "validation" not in sets:
            some = np.cumsum(sets["train"].sizes) < MEASURED
            some[0] = True
            sets["validation"] = replace(
                sets["train"], starts=sets["train"].starts[some], sizes=sets["train"].sizes[some]
            )
        return Splits(sets["train"], {"validation": sets["validation"]}, test_or_validation(sets), tuple(self.notes()))

    def running(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> Words:
        data, whole = self.recipe.data, self.whole(corpus, use, rows).split_long(LONGEST)
        size = len(self.tokenizer)
        for pairs in self.pairs:
            whole, size = joined(whole, pairs, size), size + len(pairs)
        drawing = {"negatives": self.softmax.negatives, "power": self.softmax.power}
        how: dict[str, Any] = {"window": data.window, "sample": data.sample, **drawing}
        how |= {"word_counts": self.counts, "border": self.border}
        return Words(whole.tokens, whole.starts, whole.sizes, whole.key, **how)

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Words]:
        return {path.name: self.running(Corpus(path, self.reading, progress), "test")}

    @property
    def context_length(self) -> int:
        return LONGEST

    def model(self) -> nn.Module:
        starts, units = units_of(self.words, self.ngrams)
        rows = len(self.words) + (0 if self.ngrams is None else self.ngrams.buckets)
        ways = huffman(self.counts) if self.softmax.kind == "hierarchical" else NO_WAYS
        cbow = self.recipe.data.objective == "cbow"
        shape = Shape(len(self.words), rows, starts, units, cbow, self.softmax.kind, ways)
        return WordVectors(shape, self.recipe.model.width)

    def loop(
        self, model: WordVectors, data: Words, sampler: StretchSampler, spec: TrainSpec, device: torch.device
    ) -> VectorLoop:
        return VectorLoop(model, data, sampler, engine_of(model, data, spec, device), spec)

    def table(self, model: WordVectors) -> Table:
        model = model.cpu()
        counted = np.flatnonzero(self.counts > 0)
        order = counted[np.argsort(-self.counts[counted], kind="stable")]
        inputs, shape = model.inputs.detach().numpy(), model.shape
        if self.ngrams is None:
            matrix, buckets = inputs[order], None
        else:
            starts = shape.unit_starts
            rows = [shape.units[starts[word] : starts[word + 1]] for word in order]
            matrix = np.stack([inputs[each].mean(axis=0) for each in rows])
            buckets = Buckets(self.ngrams, inputs[shape.words :], inputs[order])
        by_word = shape.softmax != "hierarchical"  # else they are of a tree
        outputs = model.outputs.detach().numpy()[order] if by_word else None
        return Table([self.words[word] for word in order], matrix, buckets, self.counts[order], outputs)

    def loss(self, model: Any, batch: WordBatch) -> Tally:
        return model.loss(batch.targets, batch.inputs, batch.weights, batch.negatives)

    def metrics(self, model: Any, batch: WordBatch) -> dict[str, Tally]:
        return {"loss": self.loss(model, batch)}

    @property
    def chance(self) -> float:
        """Of a model in which all scores are zero."""
        if self.softmax.kind == "negative":
            return (1 + self.softmax.negatives) * math.log(2)
        return math.log(len(self.counts))


def numbers_in(path: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read: {error}") from None
    return found
