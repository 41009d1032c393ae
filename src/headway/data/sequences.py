"""Encoded examples, and how rows of them become a batch. Here, and nowhere else, sequences are cut and padded."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch

from headway.config.recipe import TrainSpec
from headway.data.batch import Batch
from headway.data.samplers import Order, buckets
from headway.text.vocabulary import PAD

KEEPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # how many of the tokens that are kept are the first ones
    "head": lambda kept: kept,
    "tail": lambda kept: 0 * kept,
    "both": lambda kept: (kept + 1) // 2,
}


@dataclass(frozen=True)
class Sequences:
    """Many sequences of tokens in one array, with a label each."""

    tokens: np.ndarray
    starts: np.ndarray  # (N,): where in the array each begins
    sizes: np.ndarray  # (N,): how many tokens it has
    labels: np.ndarray  # (N,)
    limit: int | None = None  # longer ones are cut to so many tokens,
    keep: str = "head"  # of which end
    prefix: int | None = None  # a token that is put in front of each
    packed: bool = False  # whether a batch is one row of all of them, without padding
    key: str = ""  # of the texts that these are, whatever the tokens: sets with the same key are the same examples

    @classmethod
    def of(cls, sequences: list[np.ndarray], labels: list[int], prefix: int | None = None) -> Self:
        sizes = np.array([len(each) for each in sequences], dtype=np.int64)
        tokens = np.concatenate(sequences) if sequences else np.empty(0, np.int64)
        key = hashlib.blake2b(tokens.tobytes() + sizes.tobytes(), digest_size=16).hexdigest()
        return cls(tokens, np.cumsum(sizes) - sizes, sizes, np.asarray(labels, dtype=np.int64), prefix=prefix, key=key)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kept(self) -> np.ndarray:
        """How many tokens of each are left after cutting."""
        return self.sizes if self.limit is None else np.minimum(self.sizes, self.limit)

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each has in a batch."""
        return self.kept + (self.prefix is not None)

    def take(self, rows: np.ndarray) -> "Sequences":
        return replace(self, starts=self.starts[rows], sizes=self.sizes[rows], labels=self.labels[rows])

    def cut(self, limit: int) -> "Sequences":
        return replace(self, limit=limit)

    def batch(self, rows: np.ndarray) -> Batch:
        some = self.take(rows)
        kept, sizes = some.kept[:, None], some.sizes[:, None]
        columns = np.arange(max(kept.max(initial=0), 1))  # a text without tokens is all padding, but there
        real = columns < kept
        places = some.starts[:, None] + columns + np.where(columns < KEEPS[self.keep](kept), 0, sizes - kept)
        inputs = np.full(real.shape, PAD, dtype=np.int64)
        inputs[real] = self.tokens[places[real]]
        if self.prefix is not None:
            inputs = np.concatenate([np.full((len(rows), 1), self.prefix), inputs], axis=1)
        labels, lengths = torch.from_numpy(some.labels), torch.from_numpy(some.lengths)
        if self.packed:
            there = np.arange(columns.size + (self.prefix is not None)) < some.lengths[:, None]
            ends = torch.cat([torch.zeros(1, dtype=torch.int32), lengths.cumsum(0).to(torch.int32)])
            longest = int(self.lengths.max(initial=1)) if self.limit is None else self.limit + (self.prefix is not None)
            return Batch(torch.from_numpy(inputs[there][None]), labels, ends=ends, longest=longest)
        return Batch(torch.from_numpy(inputs), labels, None if real.all() else lengths)

    def order(self, spec: TrainSpec) -> Order:
        return Order(self.lengths, spec.batch, spec.tokens, spec.seed, self.packed)

    def longest(self) -> Batch:
        return self.batch(np.array([int(self.lengths.argmax())]))

    def in_buckets(self, rows: int = 256, tokens: int = 1 << 15) -> Iterator[tuple[np.ndarray, Batch]]:
        """All of them in batches of like length, each with the rows that it is made of."""
        order = np.argsort(self.lengths, kind="stable")
        for bucket in buckets(order, self.lengths, rows, tokens):
            yield bucket, self.batch(bucket)
