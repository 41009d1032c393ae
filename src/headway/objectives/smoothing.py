"""What a model is trained to do with the scores (B, T, V) or (N, V) that it gives to tokens, or to classes.

- likelihood: the right one likely, with a share of smoothing
- rdrop: the same, twice with different dropout, and both times alike (Liang et al. 2021,
  https://arxiv.org/abs/2106.14448): half of L1 + L2 + weight / 2 (KL(1 | 2) + KL(2 | 1))

An entry says how often it wants each row scored, and makes the loss of the scores, rows first to last, over and over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally


class Objective(Protocol):
    times: int  # how often each row is scored

    @property
    def smoothing(self) -> float: ...

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tally: ...


@dataclass(frozen=True)
class Likelihood:
    smoothing: float = 0.1
    times = 1

    def __post_init__(self) -> None:
        refuse_odd(self.smoothing)

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tally:
        return cross_entropy(logits, targets, weights, self.smoothing)


@dataclass(frozen=True)
class RDrop:
    weight: float = 5.0
    smoothing: float = 0.1
    times = 2

    def __post_init__(self) -> None:
        refuse_odd(self.smoothing)
        if self.weight < 0:
            raise ValueError(f"a weight of {self.weight} is below 0")

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tally:
        total: Tensor = Twice.apply(logits, targets, weights, self.weight, self.smoothing)
        return Tally(total, targets.numel() if weights is None else weights.sum())


class Twice(Function):
    """The loss of R-Drop with its gradient, written down by hand: autograd would read and write every score twice as
    often, and there are many, tokens times vocabulary times two.

    Where p and q are the probabilities of the first time and of the second, and K = KL(p | q), the gradient of
    KL(p | q) + KL(q | p) for the scores behind p is p (1 + log p - log q - K) - q.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, weights: Tensor | None, weight: float, smoothing: float
    ) -> Tensor:
        targets = torch.cat([targets, targets]).unsqueeze(-1)
        share, size = weight / 4, logits.shape[-1]
        with torch.autocast(logits.device.type, enabled=False):
            logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
            right, spread = logs.gather(-1, targets), logs.sum(dim=-1, keepdim=True)
            losses = -((1 - smoothing) * right + smoothing / size * spread) / 2
            first, second = logs.chunk(2)
            apart = first - second
            first, second = logs.exp_().chunk(2)
            gradient = torch.empty_like(logits)
            for own, other, sign, part in ((first, second, 1, 0), (second, first, -1, 1)):
                divergence = sign * torch.linalg.vecdot(own, apart).unsqueeze(-1)
                losses.chunk(2)[part].add_(divergence, alpha=share)
                slope = torch.addcmul(own * (0.5 + share - share * divergence), own, apart, value=sign * share)
                gradient.chunk(2)[part].copy_(slope.sub_(other, alpha=share).sub_(smoothing / size / 2))
            gradient.scatter_add_(-1, targets, torch.full_like(targets, -(1 - smoothing) / 2, dtype=gradient.dtype))
        if weights is not None:
            uncounted = ~torch.cat([weights, weights]).unsqueeze(-1)
            gradient.masked_fill_(uncounted, 0.0), losses.masked_fill_(uncounted, 0.0)
        ctx.save_for_backward(gradient)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.saved_tensors[0] * weight, None, None, None, None


def refuse_odd(smoothing: float) -> None:
    if not 0 <= smoothing < 1:
        raise ValueError(f"a smoothing of {smoothing} is not from 0 to below 1")


OBJECTIVES: dict[str, Callable[..., Objective]] = {"likelihood": Likelihood, "rdrop": RDrop}
