"""A batch: aligned tensors, padded where the rows differ in length."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    inputs: Tensor  # (B, T) tokens
    targets: Tensor  # (B,) classes, or (B, T) tokens
    lengths: Tensor | None = None  # (B,) real tokens in each row; None: all of them
    weights: Tensor | None = None  # (B, T) which of the targets count; None: all of them
    documents: Tensor | None = None  # (B, T) which document a token is of; None: nobody asks
    fresh: bool = True  # whether it begins anew, or goes on from where the batch before it ended

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def count(self) -> int:
        """What the loss over this batch is divided by."""
        return self.targets.numel() if self.weights is None else int(self.weights.sum())

    @property
    def tokens(self) -> int:
        """How many are real."""
        return self.inputs.numel() if self.lengths is None else int(self.lengths.sum())

    def to(self, device: torch.device) -> "Batch":
        return replace(self, **{name: each.to(device, non_blocking=True) for name, each in self.tensors.items()})

    @property
    def tensors(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if isinstance(each, Tensor)}

    def take(self, rows: Tensor | slice) -> "Batch":
        """Some of the rows, cut to the longest of them."""
        taken = {name: each[rows] for name, each in self.tensors.items()}
        if self.lengths is not None:
            lengths = taken["lengths"]
            longest = max(int(lengths.max()), 1)
            taken = {name: each[:, :longest] if each.ndim > 1 else each for name, each in taken.items()}
            taken["lengths"] = None if int(lengths.min()) == longest else lengths
        return replace(self, **taken)

    def split(self, parts: int) -> list["Batch"]:
        """All rows in up to this many parts, rows of like length together."""
        order = torch.arange(len(self)) if self.lengths is None else self.lengths.argsort(stable=True)
        return [self.take(rows) for rows in order.tensor_split(min(parts, len(self)))]

    def without_waste(self) -> list["Batch"]:
        """In parts of like length where that spares a CPU so much padding that it pays for the extra calls."""
        pays = self.inputs.numel() > 8_000 and self.tokens < 0.9 * self.inputs.numel()
        return self.split(4) if pays else [self]
