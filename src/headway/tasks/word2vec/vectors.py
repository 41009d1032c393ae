"""Vectors: word vectors by skip-gram or CBOW, with FastText's n-grams and phrases.

headway vectors train data.train=novels.txt
headway vectors nearest runs/vectors-1 captain
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from headway.config.errors import BadSetting, Problem
from headway.config.json_files import refuse_odd_file
from headway.config.parts import part
from headway.config.recipe import Recipe, TrainSpec
from headway.config.settings import setting
from headway.data.corpus import Corpus
from headway.data.files import Progress, silent
from headway.data.ragged import RaggedTokens
from headway.data.storage import write_array
from headway.objectives.tally import Tally
from headway.tasks.abilities import Embeds, HasWordVectors, TrainsItself
from headway.tasks.file_task import test_or_validation
from headway.tasks.task import Splits
from headway.tasks.unlabelled import Unlabelled, UnlabelledData
from headway.tasks.word2vec.model import NO_PATHS, VectorsSpec, WordVectorModel, huffman
from headway.tasks.word2vec.ngrams import Ngrams, word_rows
from headway.tasks.word2vec.phrases import Phrases, join_phrases
from headway.tasks.word2vec.windows import NO_SENTENCE_END, ChunkSampler, WordBatch, WordTexts
from headway.tasks.word2vec.word_vectors import Buckets, WordVectors
from headway.text.vocabulary import SPECIALS
from headway.text.words import LINE_END

if TYPE_CHECKING:
    from headway.tasks.word2vec.loop import VectorLoop

MAX_WORDS = 1000  # per text; longer texts are split
UNSUPPORTED = (  # training settings that the engines do not have
    *("accumulate", "average", "grad_clip", "compile", "freeze", "layer_decay", "optimizer", "precision", "processes"),
    *("parallel", "nodes", "grains"),
    *("cuda_graphs", "batch_tokens", "weight_decay"),
)
MAX_COUNT = 1 << 53  # of a word; sums of counts are exact
MAX_NEGATIVES = 1000  # a product of so many factors of up to 2 does not overflow
VALIDATION_WORDS = 10_000  # of the training data, if nothing is held out


class Softmax(NamedTuple):
    """The loss, and its negative samples."""

    kind: str
    negatives: int = 0
    power: float = 0.75


def negative(count: int = 5, power: float = 0.75) -> Softmax:
    if not 1 <= count <= MAX_NEGATIVES:
        raise Problem(f"the number of negative samples must be from 1 to {MAX_NEGATIVES}, not {count}")
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
        None, "a file, or a share of the training data; none: validate on the first words of the training data"
    )
    normalize: str = setting("nfkc lower", "normalization steps applied to each text")
    tokenizer: str = setting(
        "word(signs=False, lines=True)",
        "how texts are split into words; with lines=True windows do not cross line ends",
    )
    vocab_size: int = setting(1_000_000, "maximum vocabulary size", least=1, most=10_000_000, was="vocabulary")
    min_count: int = setting(5, "minimum count of a word", least=1, was="least_count")
    objective: str = setting("skipgram", "training objective", choices=("skipgram", "cbow"))
    softmax: str = setting("negative(count=5)", "loss: full softmax, negative sampling, or hierarchical softmax")
    units: str = setting("words", "input vectors: one per word, or the mean of its n-grams (FastText)")
    phrases: str = setting("none", "join frequent pairs of words into phrases")
    window: int = setting(5, "maximum context words on either side", least=1, most=1000)
    sample: float = setting(1e-3, "subsampling threshold of frequent words; 0: no subsampling", least=0)


class WordVectorsTask(Unlabelled, HasWordVectors, Embeds, TrainsItself):
    settings = VectorsData
    metric_names = ("loss",)
    encoding_settings = frozenset({"objective", "softmax", "units", "phrases", "window", "sample"})
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "data.softmax": SOFTMAXES,
        "data.units": UNITS,
        "data.phrases": PHRASES,
    }

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        for key in UNSUPPORTED:
            if getattr(recipe.train, key) not in (None, getattr(TrainSpec(), key)):
                raise BadSetting(f"train.{key}", "word vectors have their own training engine without it: leave it out")
        self.softmax: Softmax = part(SOFTMAXES, recipe.data.softmax, "data.softmax")
        self.ngrams: Ngrams | None = part(UNITS, recipe.data.units, "data.units")
        self.phrases: Phrases = part(PHRASES, recipe.data.phrases, "data.phrases")
        self.pairs: list[np.ndarray] = []  # phrases of each pass, as pairs of words
        self.words = [*SPECIALS]  # until the vocabulary is known
        self.counts = np.ones(len(self.words), np.int64)

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        self.use_tokenizer(self.tokenizer_from(self.train, self.parts["train"]))
        whole = self.whole(self.train, "train", self.parts["train"]).split_long(MAX_WORDS)
        counts = self.count_words(whole)
        for _ in range(self.phrases.passes):
            pairs = self.phrases.find(whole, counts)
            self.pairs.append(pairs)
            whole = join_phrases(whole, pairs, len(counts))
            counts = self.count_words(whole)
        self.use_counts(counts)

    def count_words(self, whole: RaggedTokens) -> np.ndarray:
        """Counts of words and phrases; zero for special tokens."""
        size = len(self.tokenizer) + sum(len(pairs) for pairs in self.pairs)
        counts = whole.counts(size)
        counts[: len(self.tokenizer)][self.tokenizer.is_special] = 0
        if self.sentence_end >= 0:
            counts[self.sentence_end] = 0
        return counts

    @property
    def sentence_end(self) -> int:
        """The token that windows do not cross: the line end, if it is a token."""
        return self.tokenizer.vocabulary.index.get(LINE_END, NO_SENTENCE_END)

    def use_counts(self, counts: np.ndarray) -> None:
        self.words, self.counts = list(self.tokenizer.vocabulary.symbols), counts
        for pairs in self.pairs:
            self.words += [f"{self.words[left]}_{self.words[right]}" for left, right in pairs]
        if (counts > 0).sum() < 2:
            raise Problem(f"{self.files['train']}: fewer than two words are frequent enough; lower data.min_count")

    def save(self, folder: Path) -> None:
        super().save(folder)
        write_array(folder / "counts.npy", self.counts)
        for number, pairs in enumerate(self.pairs):
            write_array(folder / f"phrases-{number}.npy", pairs)

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        size = len(self.tokenizer)
        for number in range(self.phrases.passes):
            self.pairs.append(load_counts(folder / f"phrases-{number}.npy", columns=(2,), below=size))
            size += len(self.pairs[-1])
        self.use_counts(load_counts(folder / "counts.npy", rows=size))

    @property
    def example(self) -> str:  # type: ignore[override]
        """The most frequent word."""
        return self.words[int(self.counts.argmax())]

    def make_splits(self) -> Splits[WordTexts]:
        sets = {use: self.texts(self.train, use, rows) for use, rows in self.parts.items()}
        for use in self.files.keys() - {"train"}:
            sets[use] = self.texts(self.source(self.files[use]), use)
        if "validation" not in sets:
            train = sets["train"]
            first = np.cumsum(train.sizes) < VALIDATION_WORDS
            first[0] = True
            sets["validation"] = replace(train, starts=train.starts[first], sizes=train.sizes[first])
        return Splits(sets["train"], {"validation": sets["validation"]}, test_or_validation(sets), tuple(self.notes()))

    def texts(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> WordTexts:
        data, whole = self.recipe.data, self.whole(corpus, use, rows).split_long(MAX_WORDS)
        size = len(self.tokenizer)
        for pairs in self.pairs:
            whole, size = join_phrases(whole, pairs, size), size + len(pairs)
        return WordTexts(
            whole.tokens,
            whole.starts,
            whole.sizes,
            whole.key,
            word_counts=self.counts,
            window=data.window,
            sample=data.sample,
            negatives=self.softmax.negatives,
            power=self.softmax.power,
            sentence_end=self.sentence_end,
        )

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, WordTexts]:
        return {path.name: self.texts(Corpus(path, self.reading, progress), "test")}

    @property
    def context_length(self) -> int:
        return MAX_WORDS

    def model(self) -> nn.Module:
        starts, rows = word_rows(self.words, self.ngrams)
        input_rows = len(self.words) + (0 if self.ngrams is None else self.ngrams.buckets)
        paths = huffman(self.counts) if self.softmax.kind == "hierarchical" else NO_PATHS
        cbow = self.recipe.data.objective == "cbow"
        spec = VectorsSpec(len(self.words), input_rows, starts, rows, cbow, self.softmax.kind, paths)
        return WordVectorModel(spec, self.recipe.model.width)

    def loop(
        self, model: WordVectorModel, data: WordTexts, sampler: ChunkSampler, spec: TrainSpec, device: torch.device
    ) -> "VectorLoop":
        from headway.tasks.word2vec.loop import (  # numba: a tenth of a second that others can do without
            VectorLoop,
            engine_of,
        )

        return VectorLoop(model, data, sampler, engine_of(model, data, spec, device), spec)

    def word_vectors(self, model: WordVectorModel) -> WordVectors:
        model = model.cpu()
        counted = np.flatnonzero(self.counts > 0)
        order = counted[np.argsort(-self.counts[counted], kind="stable")]
        inputs, spec = model.inputs.detach().numpy(), model.spec
        if self.ngrams is None:
            matrix, buckets = inputs[order], None
        else:
            starts = spec.row_starts
            rows = [spec.rows[starts[word] : starts[word + 1]] for word in order]
            matrix = np.stack([inputs[each].mean(axis=0) for each in rows])
            buckets = Buckets(self.ngrams, inputs[spec.vocab_size :], inputs[order])
        by_word = spec.loss != "hierarchical"  # else the outputs are those of inner nodes
        outputs = model.outputs.detach().numpy()[order] if by_word else None
        return WordVectors([self.words[word] for word in order], matrix, buckets, self.counts[order], outputs)

    def tokens_in(self, text: str) -> list[str]:
        symbols = self.tokenizer.vocabulary.symbols
        return [symbols[token] for token in self.tokenizer.encode([text])[0]]

    def embed(self, model: Any, texts: Sequence[str]) -> np.ndarray:
        """The mean of the vectors of a text's words."""
        vectors, rows = self.word_vectors(model), []
        for number, text in enumerate(texts, start=1):
            words = [word for word in self.tokens_in(text) if vectors.known(word)]
            if not words:
                raise Problem(f"text {number} has no known word: it has no vector")
            rows.append(np.mean([vectors.vector(word) for word in words], axis=0))
        return np.stack(rows)

    def loss(self, model: Any, batch: WordBatch) -> Tally:
        return model.loss(batch.targets, batch.inputs, batch.weights, batch.negatives)

    def metrics(self, model: Any, batch: WordBatch) -> dict[str, Tally]:
        return {"loss": self.loss(model, batch)}

    @property
    def chance(self) -> float:
        """The loss if all logits are zero."""
        if self.softmax.kind == "negative":
            return (1 + self.softmax.negatives) * math.log(2)
        return math.log(len(self.counts))


def load_counts(
    path: Path, rows: int | None = None, columns: tuple[int, ...] = (), below: int = MAX_COUNT
) -> np.ndarray:
    """An array (rows, *columns) of whole numbers from 0."""
    try:
        refuse_odd_file(path)
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise Problem(f"cannot read {path}: {error}") from None
    shape = (len(array) if rows is None else rows, *columns) if array.ndim else None
    if array.shape != shape or array.dtype.kind not in "iu" or (array < 0).any() or (array >= below).any():
        raise Problem(f"{path} is damaged: it does not fit the tokenizer")
    return array
