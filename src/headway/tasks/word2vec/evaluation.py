"""How good word vectors are: do similarities rank as people's do, and are analogies solved?"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

AT_ONCE = 256  # questions that are looked up at once


class Vectors(Protocol):
    @property
    def index(self) -> dict[str, int]: ...

    def known(self, word: str) -> bool: ...

    def similarity(self, one: str, other: str) -> float: ...

    def direction(self, word: str) -> np.ndarray: ...

    def cosines(self, vectors: np.ndarray) -> np.ndarray: ...


class Judged(NamedTuple):
    """A pair of words, and how alike people find them."""

    one: str
    other: str
    score: float


class Similarity(NamedTuple):
    spearman: float | None  # None: too few pairs are covered to say
    covered: float  # the share of pairs of which both words are known
    pairs: int


class Section(NamedTuple):
    name: str
    right: int
    asked: int  # questions of which all words are known
    questions: int

    @property
    def share(self) -> float | None:
        return self.right / self.asked if self.asked else None


def ranks(values: np.ndarray) -> np.ndarray:
    """1 for the least; equal ones share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + 1 + ends) / 2)[inverse]


def spearman(one: np.ndarray, other: np.ndarray) -> float | None:
    """The correlation of the ranks; there is none where one of them is all the same."""
    if not len(one):
        return None
    first, second = ranks(one), ranks(other)
    first, second = first - first.mean(), second - second.mean()
    size = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / size) if size else None


def similarities(vectors: Vectors, pairs: Sequence[Judged]) -> Similarity:
    known = [pair for pair in pairs if vectors.known(pair.one) and vectors.known(pair.other)]
    found = np.array([vectors.similarity(pair.one, pair.other) for pair in known])
    score = spearman(found, np.array([pair.score for pair in known]))
    return Similarity(score, len(known) / max(len(pairs), 1), len(pairs))


def analogies(vectors: Vectors, name: str, questions: Sequence[tuple[str, str, str, str]]) -> Section:
    """a is to b as c is to d: is d, of all words but a, b and c, the nearest to b - a + c?"""
    known = [each for each in questions if all(word in vectors.index for word in each)]
    right = 0
    for first in range(0, len(known), AT_ONCE):
        some = known[first : first + AT_ONCE]
        wanted = np.stack([vectors.direction(b) - vectors.direction(a) + vectors.direction(c) for a, b, c, _ in some])
        cosines = vectors.cosines(wanted)
        for row, (*given, _) in enumerate(some):
            cosines[row, [vectors.index[word] for word in given]] = -np.inf
        answers = np.array([vectors.index[answer] for *_, answer in some])
        right += int((cosines.argmax(axis=1) == answers).sum())
    return Section(name, right, len(known), len(questions))
