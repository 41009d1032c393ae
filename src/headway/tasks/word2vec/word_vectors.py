"""A table of word vectors: nearest words, similarities and analogies."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headway.config.errors import Problem, did_you_mean
from headway.tasks.word2vec.ngrams import Ngrams

CHUNK = 1 << 16  # rows per operation, to limit memory


@dataclass(frozen=True)
class Buckets:
    """N-gram vectors, for words that are not in the table."""

    ngrams: Ngrams
    rows: np.ndarray  # (buckets, D)
    own: np.ndarray  # (V, D): the rows of the words themselves, without n-grams


@dataclass(frozen=True)
class WordVectors:
    words: list[str]
    matrix: np.ndarray  # (V, D) float32; may be memory-mapped
    buckets: Buckets | None = None
    counts: np.ndarray | None = None
    outputs: np.ndarray | None = None  # (V, D): output vectors

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        return self.matrix.shape[1]

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: number for number, word in reversed(list(enumerate(self.words)))}

    @cached_property
    def norms(self) -> np.ndarray:
        """(V,): of the vectors; 1 for zero vectors, to divide by."""
        norms = np.concatenate(
            [np.linalg.norm(self.matrix[first : first + CHUNK], axis=1) for first in range(0, len(self), CHUNK)]
        )
        return np.where(norms > 0, norms, 1.0).astype(np.float32)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def vector(self, word: str) -> np.ndarray:
        """(D,): from the table, or the mean of its n-grams."""
        if word in self.index:
            return np.asarray(self.matrix[self.index[word]], np.float32)
        if self.buckets is None:
            raise Problem(f"the word {word!r} is not in the table; {did_you_mean(word, self.words)}")
        rows = self.buckets.ngrams.rows(word, 0)
        if not rows:
            raise Problem(f"{word!r} is too short for n-grams of {self.buckets.ngrams.least} letters")
        return self.buckets.rows[rows].mean(axis=0, dtype=np.float32)

    def cosines(self, vectors: np.ndarray) -> np.ndarray:
        """(N, V): cosine similarities of vectors (N, D) with all words."""
        directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        parts = [directions @ self.matrix[first : first + CHUNK].T for first in range(0, len(self), CHUNK)]
        return np.concatenate(parts, axis=1) / self.norms

    def near(self, vector: np.ndarray, count: int, exclude: Sequence[str] = ()) -> list[tuple[str, float]]:
        """The words with the highest cosine similarity."""
        cosines = self.cosines(vector[None])[0]
        excluded = list({self.index[word] for word in exclude if word in self.index})
        cosines[excluded] = -np.inf
        count = min(count, len(self) - len(excluded))
        best = np.argpartition(-cosines, max(count - 1, 0))[:count]
        best = best[np.argsort(-cosines[best], kind="stable")]
        return [(self.words[index], float(cosines[index])) for index in best]

    def nearest(self, word: str, count: int = 10) -> Sequence[tuple[str, float]]:
        return self.near(self.vector(word), count, [word])

    def analogy(self, one: str, other: str, third: str, count: int = 10) -> Sequence[tuple[str, float]]:
        """one : other = third : ? The words near other - one + third, each normalized (Mikolov et al. 2013,
        https://aclanthology.org/N13-1090)."""
        a, b, c = (self.direction(word) for word in (one, other, third))
        return self.near(b - a + c, count, [one, other, third])

    def direction(self, word: str) -> np.ndarray:
        vector = self.vector(word)
        return vector / max(float(np.linalg.norm(vector)), 1e-30)

    def similarity(self, one: str, other: str) -> float:
        return float(self.direction(one) @ self.direction(other))

    def known(self, word: str) -> bool:
        """Whether it has a vector, if only from its n-grams."""
        return word in self.index or (self.buckets is not None and bool(self.buckets.ngrams.of(word)))
