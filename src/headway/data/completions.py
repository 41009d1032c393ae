"""Completions: prompts with what should follow them. Only what follows is learned."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from headway.data.batch import Batch
from headway.data.sequences import Sequences


@dataclass(frozen=True)
class Completions(Sequences):
    """Sequences whose label says how many of their first tokens are the prompt."""

    def batch(self, rows: np.ndarray) -> Batch:
        """Each target is the token that comes next; it counts if it is behind the prompt, and no padding."""
        whole = super().batch(rows)
        if self.packed:
            return self.packed_batch(whole)
        places = torch.arange(1, whole.inputs.shape[1])
        lengths = torch.from_numpy(self.lengths[rows])
        weights = (places >= whole.targets[:, None]) & (places < lengths[:, None])
        return Batch(whole.inputs[:, :-1], whole.inputs[:, 1:], lengths - 1, weights)

    def packed_batch(self, whole: Batch) -> Batch:
        """The same without padding: of the one row, which places have a target."""
        assert whole.packing is not None
        packing, time = whole.packing, whole.inputs.shape[1]
        owners, positions = packing.owners(time), packing.positions(time)
        counted = (positions + 1 >= whole.targets[owners]) & (positions + 1 < packing.lengths[owners])
        places = counted.nonzero()[:, 0]
        return replace(whole, targets=whole.inputs[0, places + 1], places=places)

    def prompts(self, rows: np.ndarray) -> list[list[int]]:
        some = self.take(rows)
        return [
            self.tokens[start : start + size].tolist() for start, size in zip(some.starts, some.labels, strict=True)
        ]
