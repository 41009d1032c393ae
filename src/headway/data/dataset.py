"""The protocol of a dataset: examples, or windows of a stream of tokens."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from headway.config.recipe import TrainSpec
from headway.data.batch import Batch
from headway.data.samplers import Sampler


class Dataset(Protocol):
    @property
    def key(self) -> str:
        """Datasets with the same key hold the same examples, however they are tokenized."""

    def __len__(self) -> int: ...

    def sampler(self, spec: TrainSpec) -> Sampler:
        """The order of training."""

    def batch(self, rows: np.ndarray) -> Batch: ...

    def longest(self) -> Batch:
        """A batch of the longest row."""

    def batches(self) -> Iterator[tuple[np.ndarray, Batch]]:
        """All rows in batches for an evaluation; each batch comes with its rows."""
