"""Evaluation of word vectors: rank correlation with human similarity judgements, and accuracy on analogies."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

CHUNK = 256  # questions per operation


class Vectors(Protocol):
    @property
    def index(self) -> dict[str, int]: ...

    def known(self, word: str) -> bool: ...

    def similarity(self, one: str, other: str) -> float: ...

    def direction(self, word: str) -> np.ndarray: ...

    def cosines(self, vectors: np.ndarray) -> np.ndarray: ...


class Judged(NamedTuple):
    """A pair of words, and its similarity as judged by people."""

    one: str
    other: str
    score: float


class Similarity(NamedTuple):
    spearman: float | None  # None: undefined, too few pairs are covered
    covered: float  # share of pairs with two known words
    pairs: int


class Section(NamedTuple):
    name: str
    right: int
    asked: int  # questions with four known words
    questions: int

    @property
    def share(self) -> float | None:
        return self.right / self.asked if self.asked else None


def spearman(one: np.ndarray, other: np.ndarray) -> float | None:
    """Rank correlation; None if either is constant."""
    from scipy.stats import spearmanr

    if not len(one) or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(spearmanr(one, other).statistic)


def similarities(vectors: Vectors, pairs: Sequence[Judged]) -> Similarity:
    known = [pair for pair in pairs if vectors.known(pair.one) and vectors.known(pair.other)]
    cosines = np.array([vectors.similarity(pair.one, pair.other) for pair in known])
    score = spearman(cosines, np.array([pair.score for pair in known]))
    return Similarity(score, len(known) / max(len(pairs), 1), len(pairs))


def analogies(vectors: Vectors, name: str, questions: Sequence[tuple[str, str, str, str]]) -> Section:
    """a : b = c : d is right if d is the nearest to b - a + c of all words but a, b and c."""
    known = [each for each in questions if all(word in vectors.index for word in each)]
    right = 0
    for first in range(0, len(known), CHUNK):
        chunk = known[first : first + CHUNK]
        targets = np.stack([vectors.direction(b) - vectors.direction(a) + vectors.direction(c) for a, b, c, _ in chunk])
        cosines = vectors.cosines(targets)
        for row, (*given, _) in enumerate(chunk):
            cosines[row, [vectors.index[word] for word in given]] = -np.inf
        answers = np.array([vectors.index[answer] for *_, answer in chunk])
        right += int((cosines.argmax(axis=1) == answers).sum())
    return Section(name, right, len(known), len(questions))
