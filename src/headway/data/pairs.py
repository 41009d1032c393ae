"""Pairs of encoded texts, and how rows of them become a batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.config.recipe import TrainSpec
from headway.data.batch import Batch
from headway.data.samplers import Order, buckets, by_length
from headway.data.sequences import Sequences


@dataclass(frozen=True)
class Pairs:
    """Both sides end with an end token. A decoder is given what should come before each target: first ``begin``."""

    source: Sequences
    target: Sequences
    begin: int
    key: str = ""
    references: Sequence[str] = ()  # the target texts, where what a model writes will be held against them

    def __len__(self) -> int:
        return len(self.source)

    @property
    def lengths(self) -> np.ndarray:
        """(N, 2) of both sides."""
        return np.stack([self.source.lengths, self.target.lengths], axis=1)

    def batch(self, rows: np.ndarray) -> Batch:
        source, target = self.source.batch(rows), self.target.batch(rows)
        begins = torch.full((len(rows), 1), self.begin)
        given = torch.cat([begins, target.inputs[:, :-1]], dim=1)
        places = torch.arange(given.shape[1])
        lengths = torch.from_numpy(self.target.lengths[rows])
        weights = places < lengths[:, None]
        return Batch(given, target.inputs, lengths, weights, sources=source.inputs, source_lengths=source.lengths)

    def sources_of(self, count: int | None = None) -> list[list[int]]:
        """The tokens of the first sources, or of all."""
        places = list(zip(self.source.starts, self.source.kept, strict=True))[:count]
        return [self.source.tokens[start : start + size].tolist() for start, size in places]

    def order(self, spec: TrainSpec) -> Order:
        return Order(self.lengths, spec.batch, spec.tokens, spec.seed)

    def longest(self) -> Batch:
        return self.batch(np.array([int(self.lengths.sum(axis=1).argmax())]))

    def in_buckets(self, rows: int = 256, tokens: int = 1 << 15) -> Iterator[tuple[np.ndarray, Batch]]:
        """All of them in batches of like lengths, each with the rows that it is made of."""
        for bucket in buckets(by_length(self.lengths), self.lengths, rows, tokens):
            yield bucket, self.batch(bucket)
