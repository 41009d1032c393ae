"""The units of a word: its n-grams of letters, with ``<`` before it and ``>`` behind it, each in one of many buckets.

A word is the sum of what its units say, so that one that was never seen has a vector, too (Bojanowski et al. 2017,
https://arxiv.org/abs/1607.04606). Units and buckets are those of the fastText library: a bucket is the FNV-1a hash of
the unit's bytes, each taken as a number from -128 to 127, modulo the number of buckets.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headway.config.errors import Problem

PRIME, BASIS, MASK = 16777619, 2166136261, 0xFFFFFFFF
BEGIN, END = "<", ">"


@dataclass(frozen=True)
class Ngrams:
    least: int = 3
    most: int = 6
    buckets: int = 2_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most or self.buckets < 1:
            raise Problem(f"n-grams of {self.least} to {self.most} letters in {self.buckets} buckets: that cannot be")

    def of(self, word: str) -> list[str]:
        """In the order of where they begin; a mark by itself is none."""
        marked = BEGIN + word + END
        return [
            marked[first : first + size]
            for first in range(len(marked))
            for size in range(self.least, self.most + 1)
            if first + size <= len(marked) and not (size == 1 and first in (0, len(marked) - 1))
        ]

    def bucket(self, unit: str) -> int:
        return hashed(unit) % self.buckets

    def rows(self, word: str, first: int) -> list[int]:
        """The rows of a matrix in which bucket 0 is row ``first``."""
        return [first + self.bucket(unit) for unit in self.of(word)]


def hashed(unit: str) -> int:
    found = BASIS
    for byte in unit.encode():
        found = ((found ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * PRIME) & MASK
    return found


def units_of(words: Iterable[str], ngrams: Ngrams | None) -> tuple[np.ndarray, np.ndarray]:
    """Where the rows of each word begin, and all rows: a word's own, and those of its n-grams."""
    words = list(words)
    if ngrams is None:
        return np.arange(len(words) + 1), np.arange(len(words))
    rows = [[number, *ngrams.rows(word, len(words))] for number, word in enumerate(words)]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    return starts, np.fromiter((row for each in rows for row in each), np.int64, int(starts[-1]))
