"""The order of the data: a function of the seed and the step, not a state.

So a run that is resumed at a step goes on with exactly the examples that it would have seen.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from functools import lru_cache
from typing import ClassVar

import numpy as np

POOL = 50  # batches' worth of examples are sorted by length together: random enough, and little padding


class Sampler(ABC):
    """Which rows make up the batch of a step. A subclass says which batches make up an epoch."""

    static_shapes: ClassVar[bool] = False  # whether all batches have as many tokens

    def __init__(self, seed: int):
        self.seed = seed
        self.epoch = lru_cache(maxsize=4)(self.make_epoch)
        self.ends: list[int] = []  # the last steps of the first epochs

    @abstractmethod
    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, in their order."""

    def steps_in(self, epochs: float) -> int:
        """How many steps so many epochs have."""
        whole = int(epochs)
        while len(self.ends) <= whole:
            before = self.ends[-1] if self.ends else 0
            self.ends.append(before + len(self.epoch(len(self.ends))))
        before = self.ends[whole - 1] if whole else 0
        return before + round((epochs - whole) * (self.ends[whole] - before))

    def padding(self) -> float:
        """The share of the first epoch's tokens that are padding."""
        return 0.0

    def rows_at(self, step: int) -> np.ndarray:
        """The rows of step 1, 2, ..."""
        while not self.ends or self.ends[-1] < step:
            self.steps_in(len(self.ends))
        epoch = bisect_left(self.ends, step)
        before = self.ends[epoch - 1] if epoch else 0
        return self.epoch(epoch)[step - 1 - before]


class ExampleSampler(Sampler):
    """Of examples. Each epoch is a shuffle of its own.

    With a budget of tokens, a batch is made of examples of like length, at most ``batch`` of them, and no more than fit
    into the budget with their padding. If they are ``packed``, there is none, and their lengths need not be alike.
    ``lengths`` are (N,), or (N, 2) of both sides of pairs.
    """

    def __init__(self, lengths: np.ndarray, batch: int, tokens: int | None, seed: int, packed: bool = False):
        super().__init__(seed)
        self.lengths, self.batch, self.tokens, self.packed = lengths, batch, tokens, packed

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random = np.random.default_rng([self.seed, epoch])
        rows, size = random.permutation(len(self.lengths)), self.batch
        if self.tokens is None:
            return [rows[first : first + size] for first in range(0, len(rows), size)]
        if self.packed:
            return filled(rows, self.lengths, size, self.tokens)
        pools = [rows[first : first + POOL * size] for first in range(0, len(rows), POOL * size)]
        batches = [
            batch
            for pool in pools
            for batch in buckets(pool[by_length(self.lengths[pool])], self.lengths, size, self.tokens)
        ]
        return [batches[place] for place in random.permutation(len(batches))]

    def padding(self) -> float:
        if self.packed:
            return 0.0
        longest = [int(self.lengths[rows].max(axis=0).sum()) * len(rows) for rows in self.epoch(0)]
        return 1 - int(self.lengths.sum()) / max(sum(longest), 1)


class WindowSampler(Sampler):
    """Of windows of a long row of tokens, by the places where they begin.

    Each epoch cuts the row into windows from another place on, and shuffles them.
    """

    static_shapes = True

    def __init__(self, size: int, window: int, batch: int, seed: int):
        super().__init__(seed)
        self.size, self.window, self.batch = size, window, batch

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random = np.random.default_rng([self.seed, epoch])
        # A window of n inputs needs n + 1 tokens: the last is only a target.
        first = int(random.integers(max(min(self.window, self.size - self.window), 1)))
        starts = np.arange(first, max(self.size - self.window, first + 1), self.window)
        starts = starts[random.permutation(len(starts))]
        # What does not fill a batch is left for the next epoch, which cuts elsewhere: a compiled model knows one shape.
        filled = len(starts) // self.batch * self.batch or len(starts)
        return [starts[place : place + self.batch] for place in range(0, filled, self.batch)]


class PackedSampler(Sampler):
    """Of sequences (start, size, epoch) out of texts: each epoch puts the texts into an order of its own, one behind
    another, and cuts that into rows of ``tokens`` each, from another place on. A text of more than ``window`` tokens is
    several sequences, and so is one that a cut goes through. Without a seed, all stays in its order, and nothing is
    left out."""

    static_shapes = True

    def __init__(self, starts: np.ndarray, sizes: np.ndarray, window: int, tokens: int, seed: int | None):
        super().__init__(seed or 0)
        self.starts, self.sizes, self.window, self.tokens = starts, sizes, window, tokens
        self.shuffled = seed is not None

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random, order = np.random.default_rng([self.seed, epoch]), np.arange(len(self.sizes))
        if self.shuffled:
            order = random.permutation(order)
        sizes = self.sizes[order]
        ends = np.cumsum(sizes)
        first, last = 0, int(ends[-1])
        if self.shuffled and last > self.tokens:
            # What does not fill a row is left for another epoch: a compiled model knows one shape.
            first = int(random.integers(last % self.tokens + 1))
            last = first + last // self.tokens * self.tokens
        cuts = np.arange(first, last, self.tokens)
        inside = [begin + np.arange(0, size, self.window) for begin, size in zip(ends - sizes, sizes, strict=True)]
        borders = np.unique(np.concatenate([*inside, cuts, ends, [last]]))
        borders = borders[(borders >= first) & (borders <= last)]
        begins, lengths = borders[:-1], np.diff(borders)
        text = np.searchsorted(ends, begins, side="right")
        places = self.starts[order][text] + begins - (ends - sizes)[text]
        found = np.stack([places, lengths, np.full(len(begins), epoch)], axis=1)
        rows = np.split(found, np.searchsorted(begins, cuts[1:]))
        return [rows[place] for place in random.permutation(len(rows))] if self.shuffled else rows


class ContiguousSampler(Sampler):
    """Of windows that follow each other: a row of tokens is cut into as many strands as a batch has rows, and each
    batch has the next window of every strand. So what a network carries along can go on from batch to batch."""

    static_shapes = True

    def __init__(self, size: int, window: int, batch: int):
        super().__init__(seed=0)
        self.window = window
        self.batch = min(batch, max((size - 1) // window, 1))
        self.strand = (size - 1) // self.batch

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        begins = np.arange(self.batch) * self.strand
        return [begins + place * self.window for place in range(max(self.strand // self.window, 1))]


def buckets(order: np.ndarray, lengths: np.ndarray, rows: int, tokens: int) -> list[np.ndarray]:
    """Rows, sorted by length, cut into batches of at most so many rows and tokens, padding counted; at least a row."""
    found, first, longest = [], 0, [0]
    for place, sides in enumerate(lengths[order].reshape(len(order), -1).tolist()):
        longer = sides if place == first else [max(pair) for pair in zip(longest, sides, strict=True)]
        size = place - first
        if size and (size == rows or (size + 1) * sum(longer) > tokens):
            found.append(order[first:place])
            first, longer = place, sides
        longest = longer
    return [*found, order[first:]] if len(order) else found


def filled(order: np.ndarray, lengths: np.ndarray, rows: int, tokens: int) -> list[np.ndarray]:
    """Rows cut into batches of at most so many rows and tokens; at least a row."""
    found, first, total = [], 0, 0
    for place, size in enumerate(lengths[order].tolist()):
        if place > first and (place - first == rows or total + size > tokens):
            found.append(order[first:place])
            first, total = place, 0
        total += size
    return [*found, order[first:]] if len(order) else found


def in_turns(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rows, with a label each, in an order in which the labels take turns as long as there are any left."""
    place = np.empty(len(rows), np.int64)  # of each among those of its label
    for label in np.unique(labels):
        own = labels == label
        place[own] = np.arange(np.count_nonzero(own))
    return rows[np.argsort(place, kind="stable")]


def by_length(lengths: np.ndarray) -> np.ndarray:
    """The order of rows from short to long; of (N, 2) lengths, by the last, and where they agree by the first."""
    return np.lexsort(lengths.reshape(len(lengths), -1).T)
