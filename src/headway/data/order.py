"""The order of the data: a function of the seed and the step, not a state.

So a run that is resumed at a step goes on with exactly the examples that it would have seen.
"""

from bisect import bisect_left
from functools import lru_cache

import numpy as np

POOL = 50  # batches' worth of examples are sorted by length together: random enough, and little padding


class Order:
    """Which examples make up the batch of a step. Each epoch is a shuffle of its own.

    With a budget of tokens, a batch is made of examples of like length, at most ``batch`` of them, and no more than fit
    into the budget with their padding.
    """

    def __init__(self, lengths: np.ndarray, batch: int, tokens: int | None, seed: int):
        self.lengths, self.batch, self.tokens, self.seed = lengths, batch, tokens, seed
        self.epoch = lru_cache(maxsize=4)(self.make_epoch)
        self.ends: list[int] = []  # the last steps of the first epochs

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, in their order."""
        random = np.random.default_rng([self.seed, epoch])
        rows, size = random.permutation(len(self.lengths)), self.batch
        if self.tokens is None:
            return [rows[first : first + size] for first in range(0, len(rows), size)]
        pools = [rows[first : first + POOL * size] for first in range(0, len(rows), POOL * size)]
        batches = [
            batch
            for pool in pools
            for batch in buckets(pool[np.argsort(self.lengths[pool], kind="stable")], self.lengths, size, self.tokens)
        ]
        return [batches[place] for place in random.permutation(len(batches))]

    def steps_in(self, epochs: float) -> int:
        """How many steps so many epochs have."""
        whole = int(epochs)
        while len(self.ends) <= whole:
            before = self.ends[-1] if self.ends else 0
            self.ends.append(before + len(self.epoch(len(self.ends))))
        before = self.ends[whole - 1] if whole else 0
        return before + round((epochs - whole) * (self.ends[whole] - before))

    def rows_at(self, step: int) -> np.ndarray:
        """The rows of step 1, 2, ..."""
        while not self.ends or self.ends[-1] < step:
            self.steps_in(len(self.ends))
        epoch = bisect_left(self.ends, step)
        before = self.ends[epoch - 1] if epoch else 0
        return self.epoch(epoch)[step - 1 - before]

    def padding(self) -> float:
        """The share of the first epoch's tokens that are padding."""
        longest = [int(self.lengths[rows].max()) * len(rows) for rows in self.epoch(0)]
        return 1 - int(self.lengths.sum()) / max(sum(longest), 1)


def buckets(order: np.ndarray, lengths: np.ndarray, rows: int, tokens: int) -> list[np.ndarray]:
    """Rows, sorted by length, cut into batches of at most so many rows and tokens, padding counted; at least a row."""
    found, first = [], 0
    for place in range(1, len(order) + 1):
        size = place - first
        full = place == len(order) or size == rows or (size + 1) * lengths[order[place]] > tokens
        if full:
            found.append(order[first:place])
            first = place
    return found
