"""A stream: documents one after another in one long row of tokens, read in windows without padding.

    A B C | D E | F G H I        three documents, | is the mark between them
    A B C | D E                  a window of the inputs,
    B C | D E |                  and its targets, each the token that comes next

A mark is the last target of a document and the first input of the next one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from headway.config.recipe import TrainSpec
from headway.data.batch import NextTokenBatch
from headway.data.samplers import ContiguousSampler, Sampler, WindowSampler


@dataclass(frozen=True)
class Stream:
    tokens: np.ndarray
    window: int  # the inputs of a window
    stride: int | None = None  # measured in windows that begin so many tokens apart; None: that do not overlap
    mark: int | None = None  # the token between documents that may not see each other; None: they may
    carries: bool = False  # whether the windows of a batch go on from those of the batch before it
    key: str = ""

    def __len__(self) -> int:
        """Windows to measure on."""
        return len(self.ends)

    def sampler(self, spec: TrainSpec) -> Sampler:
        if self.carries:
            return ContiguousSampler(len(self.tokens), self.window, spec.batch_size)
        return WindowSampler(len(self.tokens), self.window, spec.batch_size, spec.seed)

    def batch(self, rows: np.ndarray, size: int | None = None) -> NextTokenBatch:
        """The windows that begin at these places; ``size`` is that of all of them, if it is not the usual one."""
        size = min(size or self.window, len(self.tokens) - 1 - int(rows.max()))
        places = rows[:, None] + np.arange(size + 1)
        tokens = torch.from_numpy(self.tokens[places].astype(np.int64))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        documents = None
        if self.mark is not None:
            documents = (inputs == self.mark).cumsum(dim=1)
        fresh = not self.carries or int(rows[0]) == 0
        return NextTokenBatch(inputs, targets, documents=documents, fresh=fresh)

    def longest(self) -> NextTokenBatch:
        return self.batch(np.zeros(1, np.int64))

    @property
    def ends(self) -> np.ndarray:
        """Where the windows to measure on end. Every target but the first token counts in exactly one of them."""
        last = len(self.tokens) - 1
        ends = np.arange(min(self.window, last), last, self.stride or self.window)
        return np.append(ends, last)

    def batches(self, tokens: int = 1 << 15) -> Iterator[tuple[np.ndarray, NextTokenBatch]]:
        """All windows in batches; in a window that overlaps the one before, the targets that it had count no more."""
        ends = self.ends
        counted = np.diff(ends, prepend=0)  # of each window, its last so many targets
        starts = np.maximum(ends - self.window, 0) if self.stride else ends - counted
        sizes = ends - starts
        for size in np.unique(sizes)[::-1]:
            rows = np.flatnonzero(sizes == size)
            at_once = max(tokens // int(size), 1)
            for few in np.split(rows, range(at_once, len(rows), at_once)):
                batch = self.batch(starts[few], int(size))
                yield few, with_last(batch, counted[few])


def with_last(batch: NextTokenBatch, counted: np.ndarray) -> NextTokenBatch:
    """Only the last so many targets of each row count."""
    time = batch.targets.shape[1]
    if (counted == time).all():
        return batch
    weights = torch.arange(time) >= time - torch.from_numpy(counted)[:, None]
    return replace(batch, weights=weights)
