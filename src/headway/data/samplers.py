"""Samplers: which rows make up the batch of a step, as a function of the seed and the step, not as a state.

So a resumed run continues with exactly the examples that it would have seen.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from headway.config.errors import BadSetting
from headway.config.recipe import TrainSpec
from headway.config.settings import LARGEST
from headway.data.files import Progress, silent

Order = Callable[[int], np.ndarray]  # from an epoch to its rows
POOL = 50  # batches whose examples are sorted by length together: random enough, with little padding


class Sampler(ABC):
    """A subclass makes the batches of an epoch."""

    static_shapes: ClassVar[bool] = False  # whether all batches have the same shape
    steady = False  # whether all epochs have equally many batches

    def __init__(self, seed: int):
        self.seed = seed
        self.epoch = lru_cache(maxsize=4)(self.make_epoch)
        self.ends: list[int] = []  # last step of each epoch so far

    @abstractmethod
    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, in order."""

    def steps_in(self, epochs: float, progress: Progress = silent) -> int:
        """The number of steps in this many epochs."""
        whole = int(epochs)
        if self.steady:
            before, batches = whole * len(self.epoch(0)), len(self.epoch(0))
        else:
            while len(self.ends) <= whole:
                self.append_epoch()
                progress("counting the batches of all epochs", len(self.ends) / (whole + 1))
            before = self.ends[whole - 1] if whole else 0
            batches = self.ends[whole] - before
        return before + round((epochs - whole) * batches)

    def append_epoch(self) -> None:
        before = self.ends[-1] if self.ends else 0
        self.ends.append(before + len(self.epoch(len(self.ends))))

    def padding(self) -> float:
        """The fraction of padding in the first epoch."""
        return 0.0

    def rows_at(self, step: int) -> np.ndarray:
        """The rows of a step; the first one is step 1."""
        while not self.ends or self.ends[-1] < step:
            self.append_epoch()
        epoch = bisect_left(self.ends, step)
        before = self.ends[epoch - 1] if epoch else 0
        return self.epoch(epoch)[step - 1 - before]


class ExampleSampler(Sampler):
    """Samples single examples, shuffled in each epoch.

    With ``batch_tokens``, batches are bucketed by length and hold at most that many tokens, padding included;
    ``packed`` ones have no padding and are not bucketed. ``lengths`` are (N,), or (N, 2) for both sides of pairs.
    ``order`` gives the rows of an epoch; None: all of them, shuffled.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        batch_tokens: int | None,
        seed: int,
        packed: bool = False,
        order: Order | None = None,
    ):
        super().__init__(seed)
        self.lengths, self.batch_size, self.batch_tokens, self.packed = lengths, batch_size, batch_tokens, packed
        self.order = order
        self.steady = batch_tokens is None and order is None

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random, size = np.random.default_rng([self.seed, epoch]), self.batch_size
        rows = random.permutation(len(self.lengths)) if self.order is None else self.order(epoch)
        if self.batch_tokens is None:
            return [rows[first : first + size] for first in range(0, len(rows), size)]
        if self.packed:
            return filled(rows, self.lengths, size, self.batch_tokens)
        pools = [rows[first : first + POOL * size] for first in range(0, len(rows), POOL * size)]
        batches = [
            batch
            for pool in pools
            for batch in buckets(pool[by_length(self.lengths[pool])], self.lengths, size, self.batch_tokens)
        ]
        return [batches[index] for index in random.permutation(len(batches))]

    def padding(self) -> float:
        if self.packed:
            return 0.0
        padded = [int(self.lengths[rows].max(axis=0).sum()) * len(rows) for rows in self.epoch(0)]
        real = sum(int(self.lengths[rows].sum()) for rows in self.epoch(0))
        return 1 - real / max(sum(padded), 1)


class WindowSampler(Sampler):
    """Samples windows of a stream of tokens, as the positions of their first tokens.

    Each epoch cuts the stream into windows at another offset, and shuffles them.
    """

    static_shapes = True

    def __init__(self, size: int, window: int, batch_size: int, seed: int):
        super().__init__(seed)
        self.size, self.window, self.batch_size = size, window, batch_size

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random = np.random.default_rng([self.seed, epoch])
        # A window of n inputs needs n + 1 tokens: the last is only a target.
        first = int(random.integers(max(min(self.window, self.size - self.window), 1)))
        starts = np.arange(first, max(self.size - self.window, first + 1), self.window)
        starts = starts[random.permutation(len(starts))]
        # An incomplete batch is dropped; the next epoch cuts elsewhere. A compiled model is compiled for one shape.
        filled = len(starts) // self.batch_size * self.batch_size or len(starts)
        return [starts[first : first + self.batch_size] for first in range(0, filled, self.batch_size)]


class PackedSampler(Sampler):
    """Samples packed rows of sequences (start, size, epoch): each epoch shuffles the texts, concatenates them, and cuts
    them into rows of ``tokens`` at another offset. A text of more than ``window`` tokens, or with a cut inside, becomes
    several sequences. Without a seed the texts stay in order, and none is dropped. ``order`` gives the texts of an
    epoch; None: all of them, shuffled."""

    static_shapes = True

    def __init__(
        self,
        starts: np.ndarray,
        sizes: np.ndarray,
        window: int,
        tokens: int,
        seed: int | None,
        order: Order | None = None,
    ):
        super().__init__(seed or 0)
        self.starts, self.sizes, self.window, self.tokens, self.order = starts, sizes, window, tokens, order
        self.shuffled = seed is not None

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random, order = np.random.default_rng([self.seed, epoch]), np.arange(len(self.sizes))
        if self.order is not None:
            order = self.order(epoch)
        elif self.shuffled:
            order = random.permutation(order)
        sizes = self.sizes[order]
        ends = np.cumsum(sizes)
        first, last = 0, int(ends[-1])
        if self.shuffled and last > self.tokens:
            # An incomplete row is dropped: a compiled model is compiled for one shape.
            first = int(random.integers(last % self.tokens + 1))
            last = first + last // self.tokens * self.tokens
        cuts = np.arange(first, last, self.tokens)
        inside = [begin + np.arange(0, size, self.window) for begin, size in zip(ends - sizes, sizes, strict=True)]
        borders = np.unique(np.concatenate([*inside, cuts, ends, [last]]))
        borders = borders[(borders >= first) & (borders <= last)]
        begins, lengths = borders[:-1], np.diff(borders)
        text = np.searchsorted(ends, begins, side="right")
        starts = self.starts[order][text] + begins - (ends - sizes)[text]
        sequences = np.stack([starts, lengths, np.full(len(begins), epoch)], axis=1)
        rows = np.split(sequences, np.searchsorted(begins, cuts[1:]))
        return [rows[index] for index in random.permutation(len(rows))] if self.shuffled else rows


class ContiguousSampler(Sampler):
    """Samples consecutive windows: a stream is cut into as many strands as a batch has rows, and each batch has the
    next window of every strand, so that recurrent state can be carried from batch to batch."""

    static_shapes = steady = True

    def __init__(self, size: int, window: int, batch_size: int):
        super().__init__(seed=0)
        self.window = window
        self.batch_size = min(batch_size, max((size - 1) // window, 1))
        self.strand = (size - 1) // self.batch_size

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        starts = np.arange(self.batch_size) * self.strand
        return [starts + number * self.window for number in range(max(self.strand // self.window, 1))]


def with_steps(spec: TrainSpec, sampler: Sampler, progress: Progress = silent) -> TrainSpec:
    """Convert epochs to steps."""
    if spec.epochs is None:
        return spec
    steps = spec.epochs * sampler.steps_in(1)  # about
    if steps > LARGEST:
        raise BadSetting("train.epochs", f"{spec.epochs:g} epochs are {steps:.2g} steps: at most {LARGEST:,}")
    return replace(spec, steps=max(1, sampler.steps_in(spec.epochs, progress)))


def buckets(order: np.ndarray, lengths: np.ndarray, rows: int, tokens: int) -> list[np.ndarray]:
    """Cut rows that are sorted by length into batches of at most this many rows and tokens, padding included."""
    batches, first, longest = [], 0, [0]
    for index, sides in enumerate(lengths[order].reshape(len(order), -1).tolist()):
        longer = sides if index == first else [max(pair) for pair in zip(longest, sides, strict=True)]
        size = index - first
        if size and (size == rows or (size + 1) * sum(longer) > tokens):
            batches.append(order[first:index])
            first, longer = index, sides
        longest = longer
    return [*batches, order[first:]] if len(order) else batches


def filled(order: np.ndarray, lengths: np.ndarray, rows: int, tokens: int) -> list[np.ndarray]:
    """Cut rows into batches of at most this many rows and tokens, without padding."""
    batches, first, total = [], 0, 0
    for index, size in enumerate(lengths[order].tolist()):
        if index > first and (index - first == rows or total + size > tokens):
            batches.append(order[first:index])
            first, total = index, 0
        total += size
    return [*batches, order[first:]] if len(order) else batches


def in_turns(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Reorder rows so that their labels alternate as long as possible."""
    ranks = np.empty(len(rows), np.int64)  # of each row among those with its label
    for label in np.unique(labels):
        own = labels == label
        ranks[own] = np.arange(np.count_nonzero(own))
    return rows[np.argsort(ranks, kind="stable")]


def by_length(lengths: np.ndarray) -> np.ndarray:
    """The order of rows from short to long; (N, 2) lengths are sorted by the last column, then by the first."""
    return np.lexsort(lengths.reshape(len(lengths), -1).T)
