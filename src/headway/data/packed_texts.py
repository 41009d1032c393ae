"""Texts without labels, packed into rows of equal size: a text that does not fit continues in the next row."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headway.config.recipe import TrainSpec
from headway.data.corruption import Corruption, Row, Symbols
from headway.data.mixtures import Mixes
from headway.data.packed_batch import PackedTokenBatch
from headway.data.ragged import RaggedTokens
from headway.data.samplers import PackedSampler

EVALUATION_TOKENS = 1 << 14  # per row


@dataclass(frozen=True, kw_only=True)
class PackedTexts(RaggedTokens, Mixes):
    window: int  # maximum tokens of a sequence; longer texts become several
    corrupt: Corruption
    symbols: Symbols
    seed: int = 0

    def sampler(self, spec: TrainSpec) -> PackedSampler:
        tokens = self.weight_of_step(spec)
        return PackedSampler(self.starts, self.sizes, self.window, tokens, spec.seed, self.order(spec))

    @property
    def weights(self) -> np.ndarray:
        """In tokens."""
        return self.sizes

    @property
    def size(self) -> int:
        """In tokens."""
        return int(self.sizes.sum())

    def weight_of_step(self, spec: TrainSpec) -> int:
        return spec.batch_tokens or spec.batch_size * self.window

    def batch(self, rows: np.ndarray) -> PackedTokenBatch:
        """The sequences (start, size, epoch), corrupted. The corruption is a function of the seed and the rows, and so
        differs from epoch to epoch."""
        digest = hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16).digest()
        random = np.random.default_rng([self.seed, *np.frombuffer(digest, np.uint32)])
        starts, sizes, _ = rows.T
        shift = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        tokens = self.tokens[np.arange(int(sizes.sum())) + shift].astype(np.int64)
        return self.corrupt(Row(tokens, sizes, self.window), self.symbols, random)

    def longest(self) -> PackedTokenBatch:
        index = int(self.sizes.argmax())
        return self.batch(np.array([[self.starts[index], min(int(self.sizes[index]), self.window), 0]]))

    def batches(self, tokens: int = EVALUATION_TOKENS) -> Iterator[tuple[np.ndarray, PackedTokenBatch]]:
        batches = PackedSampler(self.starts, self.sizes, self.window, tokens, seed=None).epoch(0)
        if len(batches) > 1 and batches[-1][:, 1].max() == 1:  # single tokens cannot be corrupted by themselves
            batches[-2:] = [np.concatenate(batches[-2:])]
        for rows in batches:
            yield rows, self.batch(rows)
