"""A batch: aligned tensors, padded where the rows differ in length."""

from collections.abc import Iterator
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

    def split(self, parts: int) -> Iterator["Batch"]:
        """The rows in this many parts, as equal as can be; empty parts are left out."""
        size, larger = divmod(len(self), parts)
        first = 0
        for part in range(min(parts, len(self))):
            rows = slice(first, first + size + (part < larger))
            yield Batch(self.inputs[rows], self.targets[rows], None if self.lengths is None else self.lengths[rows])
            first = rows.stop
