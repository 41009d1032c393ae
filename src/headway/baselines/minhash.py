"""Near-duplicates by MinHash (Broder 1997, https://doi.org/10.1109/SEQUEN.1997.666900).

A text is the set of its runs of three words. The smallest of their hashes agrees between two sets as often as their
Jaccard similarity says, |A ∩ B| / |A ∪ B|. So texts that agree in all hashes of a band, of which there are sixteen,
are worth a look, and are compared exactly: at a similarity of 0.7, 99 of 100 are found.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headway.baselines.documents import Documents

RUN = 3  # words
BANDS, HASHES = 16, 4  # of each band
SIMILAR = 0.7
FEWEST_RUNS = 3  # of a text that is compared at all
ODD = np.uint64(0x9E3779B97F4A7C15)


class Pair(NamedTuple):
    """A text, and one of the others that is almost the same."""

    row: int
    other: int
    similarity: float


@dataclass(frozen=True)
class Shingled:
    """Documents as sets of hashed runs of words."""

    documents: Documents

    @cached_property
    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """The hash of each run, and its document."""
        words, owners = scrambled(self.documents.words.astype(np.uint64)), self.documents.owners
        count = max(len(words) - RUN + 1, 0)
        hashes = np.zeros(count, np.uint64)
        for place in range(RUN):
            hashes = scrambled(hashes * ODD + words[place : place + count])
        is_whole = owners[:count] == owners[len(words) - count :]
        return hashes[is_whole], owners[:count][is_whole]

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.runs[1], minlength=len(self.documents))

    @cached_property
    def rows(self) -> np.ndarray:
        """The documents that are long enough."""
        return np.flatnonzero(self.sizes >= FEWEST_RUNS)

    @cached_property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.sizes) - self.sizes

    def bands(self) -> Iterator[np.ndarray]:
        """(rows,): for each band, a hash of its smallest hashes."""
        hashes, _ = self.runs
        begins = self.starts[self.sizes > 0]
        long_enough = self.sizes[self.sizes > 0] >= FEWEST_RUNS
        for band in range(BANDS):
            key = np.zeros(len(begins), np.uint64)
            for number in range(HASHES):
                seed = scrambled(np.array([band * HASHES + number + 1], np.uint64))
                least = np.minimum.reduceat(scrambled(hashes ^ seed), begins) if len(begins) else key
                key = scrambled(key * ODD + least)
            yield key[long_enough]

    def of(self, row: int) -> np.ndarray:
        start = self.starts[row]
        return np.unique(self.runs[0][start : start + self.sizes[row]])


def scrambled(values: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: every bit depends on every other one."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def near_duplicates(documents: Documents, others: Documents) -> list[Pair]:
    """The documents that are almost the same as one of the others, with the most similar of those that were found; the
    most similar first."""
    own, known = Shingled(documents), Shingled(others)
    candidates = [np.empty((0, 2), np.int64)]
    for mine, theirs in zip(own.bands(), known.bands(), strict=True):
        order = np.argsort(theirs, kind="stable")
        at = np.searchsorted(theirs[order], mine)
        at = np.minimum(at, max(len(order) - 1, 0))
        same = theirs[order][at] == mine if len(order) else np.zeros(len(mine), bool)
        candidates.append(np.stack([own.rows[same], known.rows[order[at[same]]]], axis=1))
    best: dict[int, Pair] = {}
    for row, other in np.unique(np.concatenate(candidates), axis=0).tolist():
        similarity = jaccard(own.of(row), known.of(other))
        if similarity >= SIMILAR and (row not in best or similarity > best[row].similarity):
            best[row] = Pair(row, other, similarity)
    return sorted(best.values(), key=lambda pair: -pair.similarity)


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Of sets without repetitions."""
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)
