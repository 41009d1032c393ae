"""Texts for word2vec: subsampling, context windows and negative samples.

The engines draw while they train, without a random state: a draw depends on the seed, the epoch and the position in the
text. So a resumed run continues exactly, and both engines train on the same pairs. Batches made here are for
evaluation.

- subsampling: a word with relative frequency f is kept with probability sqrt(s / f) + s / f (as in the code of Mikolov
  et al. 2013, https://arxiv.org/abs/1310.4546)
- the size of each window is uniform from 1 to ``window`` words on either side
- negative samples are drawn in proportion to counts to the power of 0.75
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from headway.config.recipe import TrainSpec
from headway.data.batch import Batch
from headway.data.ragged import RaggedTokens
from headway.data.samplers import Sampler

ONE = 1 << 32  # probability 1 in fixed-point numbers
EVALUATION_BATCH = 1000  # minimum words per batch
NO_SENTENCE_END = -1


class AliasTable(NamedTuple):
    """Sampling in proportion to weights with two lookups (Walker 1977): a uniform index i is kept with probability
    ``probability[i] / 2^32``, else replaced by ``alias[i]``."""

    probability: np.ndarray  # (V,) uint64
    alias: np.ndarray  # (V,) int64

    @classmethod
    def of(cls, weights: np.ndarray) -> "AliasTable":
        share = weights / weights.sum() * len(weights)
        probability, alias = np.ones(len(weights)), np.arange(len(weights))
        small, large = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
        while small and large:
            low, high = small.pop(), large[-1]
            probability[low], alias[low] = share[low], high
            share[high] -= 1 - share[low]
            if share[high] < 1:
                small.append(large.pop())
        return cls((probability * ONE).astype(np.uint64), alias)


def keep_probability(counts: np.ndarray, sample: float) -> np.ndarray:
    """(V,): the probability that subsampling keeps a word; zero for words with count 0."""
    frequency = counts / max(counts.sum(), 1)
    with np.errstate(divide="ignore"):
        kept = np.minimum(np.sqrt(sample / frequency) + sample / frequency, 1.0) if sample else np.ones(len(counts))
    return np.where(counts > 0, kept, 0.0)


class ChunkSampler(Sampler):
    """Texts in order: a chunk ends with the text that reaches the next multiple of ``words``."""

    def __init__(self, sizes: np.ndarray, words: int):
        super().__init__(seed=0)
        ends = np.cumsum(sizes)
        last = np.unique(np.searchsorted(ends, np.arange(words, ends[-1] + words, words)).clip(max=len(sizes) - 1))
        self.chunks = np.stack([np.concatenate([[0], last[:-1] + 1]), last + 1], axis=1)

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        """For each step: the epoch, the first text, and the one after the last."""
        return [np.array([epoch, *chunk]) for chunk in self.chunks]


@dataclass(frozen=True, kw_only=True)
class WordBatch(Batch):
    """Targets (N,) are center words, inputs (N, 2 window) their context words."""

    weights: Tensor  # (N, 2 window): which of the inputs are real
    negatives: Tensor  # (N, k): negative samples

    def take(self, rows: Tensor | slice) -> Self:
        return replace(self, **{name: each[rows] for name, each in self.tensors.items()})


@dataclass(frozen=True, kw_only=True)
class WordTexts(RaggedTokens):
    word_counts: np.ndarray  # (V,): in the training data; words with count 0 are ignored
    window: int
    sample: float
    negatives: int
    power: float
    sentence_end: int = NO_SENTENCE_END  # windows do not cross this token

    def sampler(self, spec: TrainSpec) -> ChunkSampler:
        return ChunkSampler(self.sizes, spec.batch_size)

    @cached_property
    def alias_table(self) -> AliasTable:
        """Of the negative samples."""
        known = self.word_counts > 0
        return AliasTable.of(np.where(known, np.maximum(self.word_counts, 1).astype(float) ** self.power, 0.0))

    @cached_property
    def keep(self) -> np.ndarray:
        """(V,): the probability of keeping each word, times 2^32."""
        return (keep_probability(self.word_counts, self.sample) * ONE).astype(np.uint64)

    def batch(self, rows: np.ndarray) -> WordBatch:
        """For evaluation: no subsampling, whole windows, and always the same negative samples."""
        texts = [self.tokens[self.starts[row] : self.starts[row] + self.sizes[row]] for row in rows]
        words = np.concatenate(texts).astype(np.int64) if texts else np.empty(0, np.int64)
        sentence = np.repeat(np.arange(len(texts)), [len(each) for each in texts])
        sentence = sentence + np.cumsum(words == self.sentence_end)
        counted = self.word_counts[words] > 0
        words, sentence = words[counted], sentence[counted]
        offsets = np.concatenate([np.arange(-self.window, 0), np.arange(1, self.window + 1)])
        contexts = np.arange(len(words))[:, None] + offsets
        real = (contexts >= 0) & (contexts < len(words))
        contexts = contexts.clip(0, max(len(words) - 1, 0))
        real &= sentence[contexts] == sentence[:, None] if len(words) else real
        negatives = self.sample_negatives(np.random.default_rng(0), (len(words), self.negatives))
        arrays = (np.where(real, words[contexts], 0) if len(words) else contexts, words, real, negatives)
        inputs, targets, weights, drawn = (torch.from_numpy(np.ascontiguousarray(each)) for each in arrays)
        return WordBatch(inputs, targets, weights=weights, negatives=drawn)

    def sample_negatives(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        indices = random.integers(0, len(self.word_counts), shape)
        kept = random.integers(0, ONE, shape, dtype=np.uint64) < self.alias_table.probability[indices]
        return np.where(kept, indices, self.alias_table.alias[indices])

    def longest(self) -> WordBatch:
        return self.batch(np.array([int(self.sizes.argmax())]))

    def batches(self) -> Iterator[tuple[np.ndarray, WordBatch]]:
        for _, first, last in ChunkSampler(self.sizes, EVALUATION_BATCH).epoch(0):
            rows = np.arange(first, last)
            yield rows, self.batch(rows)
