"""A stream: documents concatenated into one array of tokens, read in windows without padding.

    A B C | D E | F G H I        three documents, | is the mark between them
    A B C | D E                  the inputs of a window
    B C | D E |                  and its targets, the next tokens

A mark is the last target of a document and the first input of the next one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from headway.config.recipe import TrainSpec
from headway.data.batch import NextTokenBatch
from headway.data.samplers import ContiguousSampler, Sampler, WindowSampler


class Windows(NamedTuple):
    starts: np.ndarray
    sizes: np.ndarray
    counted: np.ndarray  # targets at the end of each that no earlier one has


@dataclass(frozen=True)
class Stream:
    tokens: np.ndarray
    window: int  # inputs per window
    stride: int | None = None  # between the windows of an evaluation; None: they do not overlap
    mark: int | None = None  # the token between documents that may not see each other; None: they may
    carries: bool = False  # whether the windows of a batch continue those of the batch before
    key: str = ""

    def __len__(self) -> int:
        """The number of windows in an evaluation."""
        return len(self.ends)

    @property
    def size(self) -> int:
        """In tokens."""
        return len(self.tokens)

    @property
    def spans(self) -> list[slice]:
        """Where its parts are, which do not go on in each other."""
        return [slice(0, len(self.tokens))]

    @property
    def parts(self) -> list[np.ndarray]:
        return [self.tokens[span] for span in self.spans]

    def weight_of_step(self, spec: TrainSpec) -> int:
        """In tokens."""
        return spec.batch_size * self.window

    def sampler(self, spec: TrainSpec) -> Sampler:
        """The order of training, as the positions at which windows begin."""
        if self.carries:
            return ContiguousSampler(len(self.tokens), self.window, spec.batch_size)
        return WindowSampler(len(self.tokens), self.window, spec.batch_size, spec.seed)

    def batch(self, rows: np.ndarray, size: int | None = None) -> NextTokenBatch:
        """The windows that begin at these positions; ``size`` replaces the usual window."""
        size = min(size or self.window, len(self.tokens) - 1 - int(rows.max()))
        indices = rows[:, None] + np.arange(size + 1)
        tokens = torch.from_numpy(self.tokens[indices].astype(np.int64))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        documents = None
        if self.mark is not None:
            documents = (inputs == self.mark).cumsum(dim=1)
        fresh = not self.carries or int(rows[0]) == 0
        return NextTokenBatch(inputs, targets, documents=documents, carries=self.carries, fresh=fresh)

    def longest(self) -> NextTokenBatch:
        return self.batch(np.zeros(1, np.int64))

    @property
    def ends(self) -> np.ndarray:
        """The ends of the windows of an evaluation. Every token but the first is a target in exactly one of them."""
        last = len(self.tokens) - 1
        ends = np.arange(min(self.window, last), last, self.stride or self.window)
        return np.append(ends, last)

    def windows(self) -> Windows:
        """Those of an evaluation."""
        ends = self.ends
        counted = np.diff(ends, prepend=0)
        starts = np.maximum(ends - self.window, 0) if self.stride else ends - counted
        return Windows(starts, ends - starts, counted)

    def batches(self, tokens: int = 1 << 15) -> Iterator[tuple[np.ndarray, NextTokenBatch]]:
        """All windows in batches; targets that an earlier window had do not count again. With ``carries``, one window
        after another."""
        if self.carries:
            starts = np.arange(0, len(self.tokens) - 1, self.window)
            yield from ((start, self.batch(start)) for start in starts[:, None])
            return
        starts, sizes, counted = self.windows()
        for size in np.unique(sizes)[::-1]:
            rows = np.flatnonzero(sizes == size)
            batch_size = max(tokens // int(size), 1)
            for chunk in np.split(rows, range(batch_size, len(rows), batch_size)):
                batch = self.batch(starts[chunk], int(size))
                yield chunk, with_last(batch, counted[chunk])


def with_last(batch: NextTokenBatch, counted: np.ndarray) -> NextTokenBatch:
    """Let only this many targets at the end of each row count."""
    time = batch.targets.shape[1]
    if (counted == time).all():
        return batch
    weights = torch.arange(time) >= time - torch.from_numpy(counted)[:, None]
    return replace(batch, weights=weights)
