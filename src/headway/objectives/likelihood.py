"""Negative log-likelihoods: of the right class (or token), or of a yes or no; and training objectives made of them.

For two classes the two are the same: softmax of logits (a, b) gives the second class the probability sigmoid(b - a).

Objectives, on logits (B, T, V) or (N, V):

- likelihood: cross-entropy with label smoothing
- rdrop: two forward passes with different dropout, and a penalty on their difference (Liang et al. 2021,
  https://arxiv.org/abs/2106.14448): half of L1 + L2 + weight / 2 (KL(1 | 2) + KL(2 | 1))

An objective states how many forward passes (``times``) it needs, and computes the loss from their concatenated logits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headway.objectives.tally import Tally

UNCOUNTED = -100  # a target that does not count


@runtime_checkable
class LogitsInShares(Protocol):
    """Logits (..., V) of which each process has some."""

    def total(self, targets: Tensor, weights: Tensor | None, smoothing: float) -> Tensor:
        """The summed cross-entropy."""

    def whole(self) -> Tensor: ...


def cross_entropy(
    logits: Tensor | LogitsInShares, targets: Tensor, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tally:
    """-log softmax(logits)[target], for logits (..., C) and targets (...) below C. ``weights`` (...) is True for the
    targets that count. ``smoothing`` is label smoothing: the share of the target distribution that is spread over all
    classes (Szegedy et al. 2016, https://arxiv.org/abs/1512.00567)."""
    count: int | Tensor = targets.numel()
    if isinstance(logits, LogitsInShares):
        count = count if weights is None else weights.sum()
        return Tally(logits.total(targets, weights, smoothing), count)
    if weights is not None and logits.device.type == "cpu":
        logits, targets = logits[weights], targets[weights]
        count = targets.numel()
    elif weights is not None:  # on a GPU, indexing by a mask would synchronise
        targets, count = targets.masked_fill(~weights, UNCOUNTED), weights.sum()
    flat = logits.flatten(0, -2), targets.flatten()
    total = F.cross_entropy(*flat, ignore_index=UNCOUNTED, reduction="sum", label_smoothing=smoothing)
    return Tally(total, count)


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tally:
    """-log sigmoid(logit) where the target is 1, -log(1 - sigmoid(logit)) where it is 0; logits (..., 1)."""
    # learn: begin model.binary
    total = F.binary_cross_entropy_with_logits(logits.squeeze(-1), targets.to(logits.dtype), reduction="sum")
    return Tally(total, targets.numel())
    # learn: end


class Objective(Protocol):
    times: int  # forward passes per row

    @property
    def smoothing(self) -> float: ...

    def __call__(self, logits: Tensor | LogitsInShares, targets: Tensor, weights: Tensor | None) -> Tally: ...


@dataclass(frozen=True)
class Likelihood:
    smoothing: float = 0.1
    times = 1

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def __call__(self, logits: Tensor | LogitsInShares, targets: Tensor, weights: Tensor | None) -> Tally:
        return cross_entropy(logits, targets, weights, self.smoothing)


@dataclass(frozen=True)
class RDrop:
    weight: float = 5.0
    smoothing: float = 0.1
    times = 2

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)
        if self.weight < 0:
            raise ValueError(f"weight={self.weight} is below 0")

    def __call__(self, logits: Tensor | LogitsInShares, targets: Tensor, weights: Tensor | None) -> Tally:
        logits = logits.whole() if isinstance(logits, LogitsInShares) else logits
        total: Tensor = RDropLoss.apply(logits, targets, weights, self.weight, self.smoothing)
        return Tally(total, targets.numel() if weights is None else weights.sum())


class RDropLoss(Function):
    """R-Drop with a hand-written gradient: autograd would read and write the logits twice as often, and they are large,
    2 x tokens x vocabulary.

    With p and q the probabilities of the two passes, and K = KL(p | q), the gradient of KL(p | q) + KL(q | p) with
    respect to the logits of p is p (1 + log p - log q - K) - q.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, weights: Tensor | None, weight: float, smoothing: float
    ) -> Tensor:
        targets = torch.cat([targets, targets]).unsqueeze(-1)
        share, size = weight / 4, logits.shape[-1]
        with torch.autocast(logits.device.type, enabled=False):
            log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
            right, spread = log_probs.gather(-1, targets), log_probs.sum(dim=-1, keepdim=True)
            losses = -((1 - smoothing) * right + smoothing / size * spread) / 2
            first, second = log_probs.chunk(2)
            difference = first - second
            first, second = log_probs.exp_().chunk(2)
            gradient = torch.empty_like(logits)
            for own, other, sign, part in ((first, second, 1, 0), (second, first, -1, 1)):
                divergence = sign * torch.linalg.vecdot(own, difference).unsqueeze(-1)
                losses.chunk(2)[part].add_(divergence, alpha=share)
                slope = torch.addcmul(own * (0.5 + share - share * divergence), own, difference, value=sign * share)
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


def check_smoothing(smoothing: float) -> None:
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing={smoothing} is not at least 0 and below 1")


OBJECTIVES: dict[str, Callable[..., Objective]] = {"likelihood": Likelihood, "rdrop": RDrop}
