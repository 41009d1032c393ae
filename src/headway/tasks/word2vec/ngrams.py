"""FastText's n-grams: the character n-grams of a word between ``<`` and ``>``, each hashed into one of many buckets.

The vector of a word is the mean over its n-grams, so that unseen words have one, too (Bojanowski et al. 2017,
https://arxiv.org/abs/1607.04606). N-grams and buckets are those of the fastText library: a bucket is the FNV-1a hash of
the n-gram's bytes, taken as signed numbers, modulo the number of buckets.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headway.config.errors import Problem

PRIME, BASIS, MASK = 16777619, 2166136261, 0xFFFFFFFF
MOST_LETTERS = 10_000_000  # in the n-grams of a word: a second
BEGIN, END = "<", ">"


@dataclass(frozen=True)
class Ngrams:
    least: int = 3
    most: int = 6
    buckets: int = 2_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most or self.buckets < 1:
            raise Problem(
                f"n-grams need 1 <= least <= most and buckets >= 1, not {self.least}, {self.most} and {self.buckets}"
            )

    def of(self, word: str) -> list[str]:
        """In the order of their first letters; ``<`` and ``>`` alone are not n-grams."""
        marked = BEGIN + word + END
        if (letters := self.letters_of(marked)) > MOST_LETTERS:
            size = f"with {self.least} to {self.most} letters have {letters:,} letters: at most {MOST_LETTERS:,}"
            raise Problem(f"the n-grams of the word {word[:20]}... of {len(word):,} letters {size}")
        # learn: begin embed.units
        return [
            marked[first : first + size]
            for first in range(len(marked))
            for size in range(self.least, min(self.most, len(marked)) + 1)
            if first + size <= len(marked) and not (size == 1 and first in (0, len(marked) - 1))
        ]
        # learn: end

    def letters_of(self, marked: str) -> int:
        """Of all n-grams of a word together: of a long word with long n-grams, more than can be gone through."""
        sizes = range(self.least, min(self.most, len(marked)) + 1)
        return sum(size * (len(marked) + 1 - size) for size in sizes)

    def bucket(self, ngram: str) -> int:
        return fnv1a(ngram) % self.buckets

    def rows(self, word: str, first: int) -> list[int]:
        """The rows of its n-grams in a matrix whose row ``first`` is bucket 0."""
        return [first + self.bucket(ngram) for ngram in self.of(word)]


def fnv1a(text: str) -> int:
    number = BASIS
    for byte in text.encode():
        number = ((number ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * PRIME) & MASK
    return number


def word_rows(words: Iterable[str], ngrams: Ngrams | None) -> tuple[np.ndarray, np.ndarray]:
    """(V + 1,) offsets, and the input rows of all words: the word's own row, and those of its n-grams."""
    words = list(words)
    if ngrams is None:
        return np.arange(len(words) + 1), np.arange(len(words))
    rows = [[number, *ngrams.rows(word, len(words))] for number, word in enumerate(words)]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    return starts, np.fromiter((row for each in rows for row in each), np.int64, int(starts[-1]))
