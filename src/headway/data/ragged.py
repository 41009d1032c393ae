"""Ragged tokens: texts of any length, one after another in one array, which may be memory-mapped."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

from headway.data.languages import Languages
from headway.data.mixtures import Mixture

CHUNK = 1 << 18  # tokens


def map_tokens(path: Path, kind: type[np.unsignedinteger]) -> np.ndarray:
    """An empty file cannot be mapped."""
    return np.memmap(path, kind, "r") if path.stat().st_size else np.empty(0, kind)


@dataclass(frozen=True)
class RaggedTokens:
    tokens: np.ndarray
    starts: np.ndarray  # (N,): index of the first token of each text
    sizes: np.ndarray  # (N,): number of its tokens
    key: str = ""  # a hash of the source: sets with the same key hold the same texts
    languages: Languages | None = None  # of the texts, if they are told apart
    mixture: Mixture | None = None  # of the languages in training; None: every text once in each epoch

    @classmethod
    def mapped(cls, tokens: Path, kind: type[np.unsignedinteger], sizes: Path, key: str = "") -> Self:
        """From a file of tokens of this type, which is memory-mapped, and a file of the texts' sizes."""
        counts = np.load(sizes, allow_pickle=False)
        return cls(map_tokens(tokens, kind), np.cumsum(counts) - counts, counts, key)

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, rows: np.ndarray) -> Self:
        languages = self.languages and self.languages.take(rows)
        return replace(self, starts=self.starts[rows], sizes=self.sizes[rows], languages=languages)

    def of_languages(self, names: Container[str]) -> Self:
        chosen = [rows for name, rows in self.rows_by_language.items() if name in names]
        return self.take(np.sort(np.concatenate([np.empty(0, np.int64), *chosen])))

    def by_language(self) -> dict[str, Self]:
        """The texts of each language, if they are told apart."""
        return {name: self.take(rows) for name, rows in self.rows_by_language.items()}

    @property
    def rows_by_language(self) -> dict[str, np.ndarray]:
        return self.languages.by_name() if self.languages else {}

    def lists(self) -> list[list[int]]:
        return [self.tokens[start : start + size].tolist() for start, size in zip(self.starts, self.sizes, strict=True)]

    def split_long(self, longest: int) -> Self:
        """Split texts with more tokens than this."""
        pieces = -(-self.sizes // longest)
        inside = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = np.repeat(self.starts, pieces) + inside * longest
        sizes = np.minimum(np.repeat(self.sizes, pieces) - inside * longest, longest)
        return replace(self, starts=starts, sizes=sizes)

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The tokens of a few texts at a time, and the sizes of these texts."""
        ends = np.cumsum(self.sizes)
        borders = np.searchsorted(ends, np.arange(0, ends[-1] + CHUNK, CHUNK), side="right")
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
