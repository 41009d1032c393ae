"""Encoded examples, and how rows of them become a batch. Here, and nowhere else, sequences are padded."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from headway.data.batch import Batch
from headway.text.vocab import PAD


@dataclass(frozen=True)
class Sequences:
    """Many sequences of tokens, one after another in one array, with a label each."""

    tokens: np.ndarray
    starts: np.ndarray  # (N + 1,): sequence i is tokens[starts[i]:starts[i + 1]]
    labels: np.ndarray  # (N,)

    @classmethod
    def of(cls, sequences: list[np.ndarray], labels: list[int]) -> "Sequences":
        starts = np.cumsum([0, *map(len, sequences)])
        tokens = np.concatenate(sequences) if sequences else np.empty(0, np.int64)
        return cls(tokens, starts, np.asarray(labels, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: np.ndarray) -> Batch:
        starts = self.starts[rows][:, None]
        lengths = self.starts[rows + 1] - self.starts[rows]
        columns = np.arange(lengths.max(initial=0))
        real = columns < lengths[:, None]
        inputs = np.where(real, self.tokens[np.where(real, starts + columns, 0)], PAD)
        unequal = None if real.all() else torch.from_numpy(lengths)
        return Batch(torch.from_numpy(inputs), torch.from_numpy(self.labels[rows]), unequal)

    def batches(self, size: int) -> Iterator[Batch]:
        """All of them, in their order."""
        for first in range(0, len(self), size):
            yield self.batch(np.arange(first, min(first + size, len(self))))
