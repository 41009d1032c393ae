"""Pairs of encoded texts, and how rows of them become a batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch

from headway.config.recipe import TrainSpec
from headway.data.batch import PairBatch
from headway.data.directions import Direction, Directions
from headway.data.mixtures import Mixes, Mixture
from headway.data.samplers import ExampleSampler, buckets, by_length
from headway.data.sequences import Sequences


@dataclass(frozen=True)
class Pairs(Mixes):
    """Both sides end with an end token. The inputs of the decoder are the targets, shifted by one, after ``bos``."""

    source: Sequences
    target: Sequences
    bos: int
    key: str = ""
    references: Sequence[str] = ()  # the target texts, if translations will be scored against them
    languages: Directions | None = None  # the direction of each pair; None: there is one
    mixture: Mixture | None = None  # of the directions

    def __len__(self) -> int:
        return len(self.source)

    @property
    def lengths(self) -> np.ndarray:
        """(N, 2) for both sides."""
        return np.stack([self.source.lengths, self.target.lengths], axis=1)

    def take(self, rows: np.ndarray) -> Self:
        return replace(
            self,
            source=self.source.take(rows),
            target=self.target.take(rows),
            references=[self.references[row] for row in rows.tolist()] if self.references else (),
            languages=self.languages and self.languages.take(rows),
        )

    @property
    def rows_by_direction(self) -> dict[Direction, np.ndarray]:
        return self.languages.by_direction() if self.languages else {}

    @property
    def weights(self) -> np.ndarray:
        """Each pair counts 1."""
        return np.ones(len(self))

    def weight_of_step(self, spec: TrainSpec) -> int:
        return spec.batch_size  # or fewer, with train.batch_tokens

    def batch(self, rows: np.ndarray) -> PairBatch:
        sources, source_lengths = self.source.pad(rows)
        targets, lengths = self.target.pad(rows)
        bos = torch.full((len(rows), 1), self.bos)
        inputs = torch.cat([bos, targets[:, :-1]], dim=1)
        weights = torch.arange(inputs.shape[1]) < lengths[:, None]
        padded = bool((source_lengths < sources.shape[1]).any())
        return PairBatch(
            inputs, targets, lengths, weights, sources=sources, source_lengths=source_lengths if padded else None
        )

    def sources_of(self, count: int | None = None) -> list[list[int]]:
        """The tokens of the first ``count`` sources, or of all."""
        return replace(self.source, sizes=self.source.kept).take(np.arange(len(self))[:count]).lists()

    def sampler(self, spec: TrainSpec) -> ExampleSampler:
        return ExampleSampler(self.lengths, spec.batch_size, spec.batch_tokens, spec.seed, order=self.order(spec))

    def longest(self) -> PairBatch:
        return self.batch(np.array([int(self.lengths.sum(axis=1).argmax())]))

    def batches(self, rows: int = 256, tokens: int = 1 << 15) -> Iterator[tuple[np.ndarray, PairBatch]]:
        """All pairs in batches, bucketed by length; each batch comes with its rows."""
        for bucket in buckets(by_length(self.lengths), self.lengths, rows, tokens):
            yield bucket, self.batch(bucket)
