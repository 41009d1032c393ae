"""What a model is trained and measured on: examples, or windows of a long row of tokens."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from headway.config.recipe import TrainSpec
from headway.data.batch import Batch
from headway.data.samplers import Sampler


class Dataset(Protocol):
    @property
    def key(self) -> str:
        """Sets with the same key are the same examples, whatever their tokens."""

    def __len__(self) -> int: ...

    def sampler(self, spec: TrainSpec) -> Sampler:
        """Which rows make up the batch of a step."""

    def batch(self, rows: np.ndarray) -> Batch: ...

    def longest(self) -> Batch:
        """One row, as long as any."""

    def batches(self) -> Iterator[tuple[np.ndarray, Batch]]:
        """All of them in batches, each with the rows that it is made of."""
