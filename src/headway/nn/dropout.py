"""Dropout: each number is set to zero with probability p, and the others are divided by 1 - p.

(Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html.) On a CPU, torch draws one random number for
each element on one core, which can cost more than the matrix products around it. Here one 64-bit draw decides four
elements, 16 bits each, so the probability is p to within 1/65536, and the scale is that of the probability in force.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.errors import Problem

LEVELS = 1 << 16


class Dropout(nn.Module):
    def __init__(self, probability: float = 0.0):
        super().__init__()
        if not 0 <= probability < 1:
            raise Problem(f"a dropout of {probability} must be at least 0 and below 1")
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.probability)
        return FourAtOnce.apply(x, round(self.probability * LEVELS))  # type: ignore[no-untyped-call]

    def extra_repr(self) -> str:
        return str(self.probability)


class FourAtOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, dropped: int) -> Tensor:  # type: ignore[no-untyped-def]
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        keep = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - LEVELS // 2
        ctx.save_for_backward(keep)
        ctx.scale = LEVELS / (LEVELS - dropped)
        return x.mul(keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        (keep,) = ctx.saved_tensors
        return gradient.mul(keep).mul_(ctx.scale), None
