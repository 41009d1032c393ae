"""Words of running text, and what a step learns from: which of them are read, how far around, and beside which others.

Nothing is drawn from a state. What happens at a place of the text follows from the seed, the epoch and the place: so a
run that is resumed goes on as it would have, and so do two engines with the same text.

- frequent words are left out at random: one that is a share f of the text is kept with probability
  sqrt(s / f) + s / f (as the code of Mikolov et al. 2013, https://arxiv.org/abs/1310.4546, has it)
- a word looks at 1 ... window words on either side, each reach as likely
- beside the right one, words are drawn by their counts to the power of 0.75
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

WHOLE = 1 << 32  # a probability of 1, as a whole number
MEASURED = 1000  # words of a batch to measure on, at least
NO_BORDER = -1


class Draw(NamedTuple):
    """Numbers in proportion to weights, each by two looks (Walker 1977): place i is drawn evenly, and stays i with a
    chance of ``stays[i]`` in 2^32, else becomes ``instead[i]``."""

    stays: np.ndarray  # (V,) uint64
    instead: np.ndarray  # (V,) int64

    @classmethod
    def of(cls, weights: np.ndarray) -> "Draw":
        share = weights / weights.sum() * len(weights)
        stays, instead = np.ones(len(weights)), np.arange(len(weights))
        small, large = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
        while small and large:
            low, high = small.pop(), large[-1]
            stays[low], instead[low] = share[low], high
            share[high] -= 1 - share[low]
            if share[high] < 1:
                small.append(large.pop())
        return cls((stays * WHOLE).astype(np.uint64), instead)


def kept_share(counts: np.ndarray, sample: float) -> np.ndarray:
    """(V,): the probability with which a word of the text is read; words that do not count have no chance."""
    share = counts / max(counts.sum(), 1)
    with np.errstate(divide="ignore"):
        kept = np.minimum(np.sqrt(sample / share) + sample / share, 1.0) if sample else np.ones(len(counts))
    return np.where(counts > 0, kept, 0.0)


class StretchSampler(Sampler):
    """Of texts, in the order in which they are: each step has the next ones, of so many words at least."""

    def __init__(self, sizes: np.ndarray, words: int):
        super().__init__(seed=0)
        ends = np.cumsum(sizes)
        last = np.unique(np.searchsorted(ends, np.arange(words, ends[-1] + words, words)).clip(max=len(sizes) - 1))
        self.stretches = np.stack([np.concatenate([[0], last[:-1] + 1]), last + 1], axis=1)

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        """Each is the epoch, the first text, and the one behind the last."""
        return [np.array([epoch, *stretch]) for stretch in self.stretches]


@dataclass(frozen=True, kw_only=True)
class WordBatch(Batch):
    """Words (N,) as targets, and around each the words (N, 2 window) as inputs."""

    weights: Tensor  # (N, 2 window) which of the inputs are there
    negatives: Tensor  # (N, k) words that are not the target

    def take(self, rows: Tensor | slice) -> Self:
        return replace(self, **{name: each[rows] for name, each in self.tensors.items()})


@dataclass(frozen=True, kw_only=True)
class Words(RaggedTokens):
    word_counts: np.ndarray  # (V,): how often each word stands in the training data; 0: it does not count
    window: int
    sample: float
    negatives: int
    power: float
    border: int = NO_BORDER  # the token that stands between two texts; a window does not reach across it

    def sampler(self, spec: TrainSpec) -> StretchSampler:
        return StretchSampler(self.sizes, spec.batch_size)

    @cached_property
    def draw(self) -> Draw:
        known = self.word_counts > 0
        return Draw.of(np.where(known, np.maximum(self.word_counts, 1).astype(float) ** self.power, 0.0))

    @cached_property
    def kept(self) -> np.ndarray:
        """(V,): of 2^32 chances, those with which a word is read."""
        return (kept_share(self.word_counts, self.sample) * WHOLE).astype(np.uint64)

    def batch(self, rows: np.ndarray) -> WordBatch:
        """Texts to measure on: all words that count, with whole windows, and negatives that are always the same."""
        texts = [self.tokens[self.starts[row] : self.starts[row] + self.sizes[row]] for row in rows]
        whole = np.concatenate(texts).astype(np.int64) if texts else np.empty(0, np.int64)
        text = np.repeat(np.arange(len(texts)), [len(each) for each in texts]) + np.cumsum(whole == self.border)
        counted = self.word_counts[whole] > 0
        whole, text = whole[counted], text[counted]
        offsets = np.concatenate([np.arange(-self.window, 0), np.arange(1, self.window + 1)])
        around = np.arange(len(whole))[:, None] + offsets
        inside = (around >= 0) & (around < len(whole))
        around = around.clip(0, max(len(whole) - 1, 0))
        inside &= text[around] == text[:, None] if len(whole) else inside
        random = np.random.default_rng(0)
        negatives = self.drawn(random, (len(whole), self.negatives))
        tensors = (np.where(inside, whole[around], 0) if len(whole) else around, whole, inside, negatives)
        inputs, targets, weights, drawn = (torch.from_numpy(np.ascontiguousarray(each)) for each in tensors)
        return WordBatch(inputs, targets, weights=weights, negatives=drawn)

    def drawn(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        places = random.integers(0, len(self.word_counts), shape)
        stays = random.integers(0, WHOLE, shape, dtype=np.uint64) < self.draw.stays[places]
        return np.where(stays, places, self.draw.instead[places])

    def longest(self) -> WordBatch:
        return self.batch(np.array([int(self.sizes.argmax())]))

    def batches(self) -> Iterator[tuple[np.ndarray, WordBatch]]:
        for _, first, last in StretchSampler(self.sizes, MEASURED).epoch(0):
            rows = np.arange(first, last)
            yield rows, self.batch(rows)
