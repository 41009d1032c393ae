"""Texts without labels as rows of sequences of equal size: what does not fit into a row goes on in the next one."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headway.config.recipe import TrainSpec
from headway.data.corruption import Corruption, Row, Symbols
from headway.data.packed_batch import PackedTokenBatch
from headway.data.ragged import RaggedTokens
from headway.data.samplers import PackedSampler

MEASURED = 1 << 14  # tokens of a row to measure on


@dataclass(frozen=True, kw_only=True)
class PackedTexts(RaggedTokens):
    window: int  # a sequence has no more tokens; longer texts are several sequences
    corrupt: Corruption
    symbols: Symbols
    seed: int = 0

    def sampler(self, spec: TrainSpec) -> PackedSampler:
        return PackedSampler(
            self.starts, self.sizes, self.window, spec.batch_tokens or spec.batch_size * self.window, spec.seed
        )

    def batch(self, rows: np.ndarray) -> PackedTokenBatch:
        """The sequences (start, size, epoch), corrupted in a way that follows from the seed and from which they are: so
        that the same ones are corrupted otherwise in another epoch."""
        digest = hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16).digest()
        random = np.random.default_rng([self.seed, *np.frombuffer(digest, np.uint32)])
        starts, sizes, _ = rows.T
        shift = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        tokens = self.tokens[np.arange(int(sizes.sum())) + shift].astype(np.int64)
        return self.corrupt(Row(tokens, sizes, self.window), self.symbols, random)

    def longest(self) -> PackedTokenBatch:
        place = int(self.sizes.argmax())
        return self.batch(np.array([[self.starts[place], min(int(self.sizes[place]), self.window), 0]]))

    def batches(self, tokens: int = MEASURED) -> Iterator[tuple[np.ndarray, PackedTokenBatch]]:
        found = PackedSampler(self.starts, self.sizes, self.window, tokens, seed=None).epoch(0)
        if len(found) > 1 and found[-1][:, 1].max() == 1:  # a rest that nothing can be done to
            found[-2:] = [np.concatenate(found[-2:])]
        for rows in found:
            yield rows, self.batch(rows)
