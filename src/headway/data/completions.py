"""Completions: prompts with what should follow them. Only what follows is learned."""

from dataclasses import dataclass

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
        places = torch.arange(1, whole.inputs.shape[1])
        lengths = torch.from_numpy(self.lengths[rows])
        weights = (places >= whole.targets[:, None]) & (places < lengths[:, None])
        return Batch(whole.inputs[:, :-1], whole.inputs[:, 1:], lengths - 1, weights)

    def prompts(self, rows: np.ndarray) -> list[list[int]]:
        some = self.take(rows)
        return [
            self.tokens[start : start + size].tolist() for start, size in zip(some.starts, some.labels, strict=True)
        ]
