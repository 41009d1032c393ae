"""The vocabulary, shared out along ``tensor``: each rank has some rows of the embedding's table, and computes the
logits of these tokens (Shoeybi et al. 2019, section 3).

    rows of the table     a rank looks up those that it has, zeros stand for the others; the sum over ranks is whole
    logits                each rank has those of its tokens; the loss needs three numbers of each rank for each target
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.collectives import Axis, gathered, own, shared, summed
from headway.nn.cutting import Cut
from headway.objectives.likelihood import UNCOUNTED


@dataclass(frozen=True)
class PaddedCut(Cut):
    """Blocks of any size: each is shared out in slices of the same length, with zeros at the end of the last."""

    def units(self) -> list[int]:
        return []

    def padded(self, block: Tensor, ranks: int) -> Tensor:
        missing = [0, 0] * (block.ndim - 1 - self.dim) + [0, -block.shape[self.dim] % ranks]
        return F.pad(block, missing)

    def local(self, whole: Tensor, axis: Axis) -> Tensor:
        blocks = whole.split(self.blocks, self.dim)
        return torch.cat([axis.slice(self.padded(block, axis.size), self.dim) for block in blocks], self.dim)

    def whole(self, local: Tensor, axis: Axis) -> Tensor:
        ranks = axis.gather(local[None], 0)
        by_rank = [rank.split([each(size, axis.size) for size in self.blocks], self.dim) for rank in ranks]
        blocks = [torch.cat(slices, self.dim) for slices in zip(*by_rank, strict=True)]
        trimmed = [block.narrow(self.dim, 0, size) for block, size in zip(blocks, self.blocks, strict=True)]
        return torch.cat(trimmed, self.dim)

    def spans(self, rank: int, ranks: int) -> list[tuple[int, int]]:
        start, found = 0, []
        for size in self.blocks:
            length = each(size, ranks)
            found.append((start + min(rank * length, size), start + min((rank + 1) * length, size)))
            start += size
        return found


def each(size: int, ranks: int) -> int:
    """The rows of each rank."""
    return -(-size // ranks)


@dataclass(frozen=True)
class TableShare:
    """The rows of a table that stand on this rank: a slice of each block."""

    axis: Axis
    blocks: tuple[int, ...]

    def find(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of the whole table as rows of this rank's, and whether they are there."""
        local, there = torch.zeros_like(rows), torch.zeros_like(rows, dtype=torch.bool)
        start = begins = 0
        for size in self.blocks:
            length = each(size, self.axis.size)
            place = rows - start - self.axis.rank * length
            inside = (place >= 0) & (place < length) & (rows >= start) & (rows < start + size)
            local, there = torch.where(inside, begins + place, local), there | inside
            start, begins = start + size, begins + length
        return local, there

    def whole(self, part: Tensor) -> Tensor:
        """Vectors of which each rank has a summand."""
        return summed(part, self.axis)

    @property
    def tokens(self) -> int:
        """The rows for tokens are the first block."""
        return each(self.blocks[0], self.axis.size)

    def logits(self, states: Tensor, matrix: Tensor, bias: Tensor | None, training: bool) -> Any:
        """Of states (..., D) and this rank's rows of the output matrix; in training they stay shared out."""
        local = F.linear(shared(states, self.axis), matrix)
        if bias is not None:
            missing = self.tokens * self.axis.size - len(bias)
            local = local + own(F.pad(bias, (0, missing)), self.axis, 0)
        logits = SharedLogits(local, self.axis, self.blocks[0])
        return logits if training else logits.whole()


class SharedLogits(NamedTuple):  # a tuple, so that FSDP finds the tensor in it
    """Logits (..., V) of which each rank has those of its tokens."""

    local: Tensor
    axis: Axis
    vocabulary: int

    @property
    def first(self) -> int:
        """The first token of this rank."""
        return self.axis.rank * self.local.shape[-1]

    @property
    def real(self) -> Tensor:
        """Without those of tokens that do not exist."""
        return self.local[..., : max(min(self.vocabulary - self.first, self.local.shape[-1]), 0)]

    def whole(self) -> Tensor:
        return gathered(self.local, self.axis, self.local.ndim - 1)[..., : self.vocabulary]

    def argmax(self, dim: int = -1) -> Tensor:
        return self.whole().argmax(dim)

    def losses(self, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """-log softmax of the targets: from the logarithm of the normalizing sum, the target's logit, and the sum of
        all logits, of each rank's tokens."""
        local = self.real.to(torch.promote_types(self.local.dtype, torch.float32))
        place = targets - self.first
        there = (place >= 0) & (place < local.shape[-1])
        if local.shape[-1]:
            right = local.gather(-1, torch.where(there, place, 0)[..., None])[..., 0] * there
            normalizer = local.logsumexp(-1)
        else:  # a small vocabulary among many ranks
            right, normalizer = local.sum(-1), local.new_full(targets.shape, -torch.inf)
        of_rank = torch.stack([normalizer, right, local.sum(-1)])
        normalizers, rights, sums = gathered(of_rank[None], self.axis, 0).unbind(1)
        rest = smoothing * sums.sum(0) / self.vocabulary
        return normalizers.logsumexp(0) - (1 - smoothing) * rights.sum(0) - rest

    def total(self, targets: Tensor, weights: Tensor | None, smoothing: float) -> Tensor:
        counted = targets != UNCOUNTED
        counted = counted if weights is None else counted & weights.bool()
        return self.losses(targets.clamp(min=0), smoothing).masked_fill(~counted, 0.0).sum()
