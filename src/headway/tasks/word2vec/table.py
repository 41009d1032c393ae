"""Word vectors as a table: what stands near a word, and what is to one word as another is to a third."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headway.config.errors import Problem, did_you_mean
from headway.tasks.word2vec.ngrams import Ngrams

AT_ONCE = 1 << 16  # rows that are compared at once, so that nothing of the size of all of them is made


@dataclass(frozen=True)
class Buckets:
    """What words are made of that are not in the table."""

    ngrams: Ngrams
    rows: np.ndarray  # (buckets, D)
    own: np.ndarray  # (V, D): the rows that the words in the table have beside these


@dataclass(frozen=True)
class Table:
    words: list[str]
    matrix: np.ndarray  # (V, D) float32; it may lie on the disk
    buckets: Buckets | None = None
    counts: np.ndarray | None = None
    outputs: np.ndarray | None = None  # (V, D): of the words as those that are looked for

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        return self.matrix.shape[1]

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: number for number, word in reversed(list(enumerate(self.words)))}

    @cached_property
    def lengths(self) -> np.ndarray:
        """(V,): of the vectors; a vector of zeros has 1, so that nothing is divided by 0."""
        found = np.concatenate(
            [np.linalg.norm(self.matrix[first : first + AT_ONCE], axis=1) for first in range(0, len(self), AT_ONCE)]
        )
        return np.where(found > 0, found, 1.0).astype(np.float32)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def vector(self, word: str) -> np.ndarray:
        """(D,): the word's, or what its n-grams come to."""
        if word in self.index:
            return np.asarray(self.matrix[self.index[word]], np.float32)
        if self.buckets is None:
            raise Problem(f"the word {word!r} is not in the table; {did_you_mean(word, self.words)}")
        rows = self.buckets.ngrams.rows(word, 0)
        if not rows:
            raise Problem(f"{word!r} is too short to have n-grams of {self.buckets.ngrams.least} letters")
        return self.buckets.rows[rows].mean(axis=0, dtype=np.float32)

    def cosines(self, vectors: np.ndarray) -> np.ndarray:
        """(N, V) of vectors (N, D) with all words."""
        directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        parts = [directions @ self.matrix[first : first + AT_ONCE].T for first in range(0, len(self), AT_ONCE)]
        return np.concatenate(parts, axis=1) / self.lengths

    def near(self, vector: np.ndarray, count: int, without: Sequence[str] = ()) -> list[tuple[str, float]]:
        """The words in its direction, with their cosines."""
        cosines = self.cosines(vector[None])[0]
        cosines[[self.index[word] for word in without if word in self.index]] = -np.inf
        count = min(count, len(self) - len({word for word in without if word in self.index}))
        best = np.argpartition(-cosines, max(count - 1, 0))[:count]
        return [(self.words[place], float(cosines[place])) for place in best[np.argsort(-cosines[best], kind="stable")]]

    def nearest(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        return self.near(self.vector(word), count, [word])

    def analogy(self, one: str, other: str, third: str, count: int = 10) -> list[tuple[str, float]]:
        """What is to ``third`` as ``other`` is to ``one``: near other - one + third, each of length 1 (Mikolov et al.
        2013, https://aclanthology.org/N13-1090)."""
        a, b, c = (self.direction(word) for word in (one, other, third))
        return self.near(b - a + c, count, [one, other, third])

    def direction(self, word: str) -> np.ndarray:
        vector = self.vector(word)
        return vector / max(float(np.linalg.norm(vector)), 1e-30)

    def similarity(self, one: str, other: str) -> float:
        return float(self.direction(one) @ self.direction(other))

    def known(self, word: str) -> bool:
        """Whether it has a vector, if only of its n-grams."""
        return word in self.index or (self.buckets is not None and bool(self.buckets.ngrams.of(word)))
