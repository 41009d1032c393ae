"""Whole texts as numbers, one behind another, with nothing between them; there may be more than fit into memory."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

AT_ONCE = 1 << 18  # words that are looked at together


class Whole(NamedTuple):
    tokens: np.ndarray  # they may lie on the disk
    starts: np.ndarray  # (N,): where each text begins
    sizes: np.ndarray  # (N,): how many words it has
    key: str  # of what they were made from

    def cut(self, longest: int) -> "Whole":
        """A text with more words than this becomes several."""
        pieces = -(-self.sizes // longest)
        inside = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = np.repeat(self.starts, pieces) + inside * longest
        sizes = np.minimum(np.repeat(self.sizes, pieces) - inside * longest, longest)
        return self._replace(starts=starts, sizes=sizes)

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The words of some texts at a time, and the sizes of these texts."""
        ends = np.cumsum(self.sizes)
        borders = np.searchsorted(ends, np.arange(0, ends[-1] + AT_ONCE, AT_ONCE), side="right")
        for first, last in pairwise(borders):
            starts, sizes = self.starts[first:last], self.sizes[first:last]
            if len(sizes):
                inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
                yield self.tokens[np.repeat(starts, sizes) + inside], sizes

    def counts(self, size: int) -> np.ndarray:
        """How often each of so many words comes."""
        found = np.zeros(size, np.int64)
        for words, _ in self.pieces():
            found += np.bincount(words, minlength=size)
        return found
