"""A batch: aligned tensors, padded where the rows differ in length."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    inputs: Tensor  # (B, T) tokens
    targets: Tensor  # (B,) classes
    lengths: Tensor | None = None  # (B,) real tokens in each row; None: all of them

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def count(self) -> int:
        """What the loss over this batch is divided by."""
        return self.targets.numel()

    @property
    def tokens(self) -> int:
        """How many are real."""
        return self.inputs.numel() if self.lengths is None else int(self.lengths.sum())

    def to(self, device: torch.device) -> "Batch":
        inputs, targets = self.inputs.to(device, non_blocking=True), self.targets.to(device, non_blocking=True)
        return Batch(inputs, targets, None if self.lengths is None else self.lengths.to(device, non_blocking=True))

    def take(self, rows: Tensor | slice) -> "Batch":
        """Some of the rows, cut to the longest of them."""
        if self.lengths is None:
            return Batch(self.inputs[rows], self.targets[rows])
        lengths = self.lengths[rows]
        longest = max(int(lengths.max()), 1)
        unequal = None if int(lengths.min()) == longest else lengths
        return Batch(self.inputs[rows, :longest], self.targets[rows], unequal)

    def split(self, parts: int) -> list["Batch"]:
        """All rows in up to this many parts, rows of like length together."""
        order = torch.arange(len(self)) if self.lengths is None else self.lengths.argsort(stable=True)
        return [self.take(rows) for rows in order.tensor_split(min(parts, len(self)))]

    def without_waste(self) -> list["Batch"]:
        """In parts of like length where that spares a CPU so much padding that it pays for the extra calls."""
        pays = self.inputs.numel() > 8_000 and self.tokens < 0.9 * self.inputs.numel()
        return self.split(4) if pays else [self]
