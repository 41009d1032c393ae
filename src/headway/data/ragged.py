"""Ragged tokens: texts of any length, one behind another in one array, which may be mapped from the disk."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

AT_ONCE = 1 << 18  # tokens that are read together


@dataclass(frozen=True)
class RaggedTokens:
    tokens: np.ndarray
    starts: np.ndarray  # (N,): where each text begins
    sizes: np.ndarray  # (N,): how many tokens it has
    key: str = ""  # of what they were made from: sets with the same key hold the same texts

    @classmethod
    def mapped(cls, tokens: Path, kind: type[np.unsignedinteger], sizes: Path, key: str = "") -> Self:
        """A file of tokens of this kind, and one of their sizes; nothing is read until it is asked for."""
        found = np.memmap(tokens, kind, "r") if tokens.stat().st_size else np.empty(0, kind)
        counts = np.load(sizes, allow_pickle=False)
        return cls(found, np.cumsum(counts) - counts, counts, key)

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, rows: np.ndarray) -> Self:
        return replace(self, starts=self.starts[rows], sizes=self.sizes[rows])

    def lists(self) -> list[list[int]]:
        return [self.tokens[at : at + size].tolist() for at, size in zip(self.starts, self.sizes, strict=True)]

    def split_long(self, longest: int) -> Self:
        """A text with more tokens than this becomes several."""
        pieces = -(-self.sizes // longest)
        inside = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = np.repeat(self.starts, pieces) + inside * longest
        sizes = np.minimum(np.repeat(self.sizes, pieces) - inside * longest, longest)
        return replace(self, starts=starts, sizes=sizes)

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The tokens of some texts at a time, and the sizes of these texts."""
        ends = np.cumsum(self.sizes)
        borders = np.searchsorted(ends, np.arange(0, ends[-1] + AT_ONCE, AT_ONCE), side="right")
        for first, last in pairwise(borders):
            starts, sizes = self.starts[first:last], self.sizes[first:last]
            if len(sizes):
                inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
                yield self.tokens[np.repeat(starts, sizes) + inside], sizes

    def counts(self, vocabulary: int) -> np.ndarray:
        """How often each token of the vocabulary occurs."""
        totals = np.zeros(vocabulary, np.int64)
        for tokens, _ in self.chunks():
            totals += np.bincount(tokens, minlength=vocabulary)
        return totals
