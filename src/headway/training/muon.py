"""Muon: the update of a matrix is its orthogonalized momentum (Jordan et al. 2024,
https://kellerjordan.github.io/posts/muon). torch.optim.Muon does the same one matrix at a time; here all matrices of
one shape are batched, which is several times as fast on a GPU."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from headway.nn.collectives import local_part

Along = Callable[[Tensor, Tensor], Tensor]  # of a weight and a tensor that is cut as it is

# Coefficients of the polynomial a x + b x^3 + c x^5, which brings singular values near 1 in five rounds.
A, B, C = 3.4445, -4.7750, 2.0315
ROUNDS = 5


class Muon(Optimizer):
    def __init__(self, weights: Iterable[Tensor], lr: float, weight_decay: float, momentum: float):
        shapes: dict[torch.Size, list[Tensor]] = {}
        for weight in weights:
            shapes.setdefault(weight.shape, []).append(weight)
        groups = [{"params": matrices} for matrices in shapes.values()]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.join: Along | None = None
        self.share: Along | None = None

    def share_out(self, join: Along, share: Along) -> None:
        """Where a process has a share of each matrix: ``join`` makes of such shares what is whole, ``share`` goes back.
        What is orthogonal is the whole matrix."""
        self.join, self.share = join, share

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            rate, momentum = group["lr"], group["momentum"]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
            gradients = [local_part(weight.grad) for weight in weights]
            means = [local_part(self.state[weight]["momentum_buffer"]) for weight in weights]
            torch._foreach_lerp_(means, gradients, 1 - momentum)
            updates = torch._foreach_lerp(gradients, means, momentum)  # Nesterov momentum
            own = [local_part(weight) for weight in weights]
            torch._foreach_mul_(own, 1 - rate * group["weight_decay"])
            if self.join is None or self.share is None:
                whole = orthogonal(torch.stack(updates)).to(own[0].dtype)
                torch._foreach_add_(own, list(whole), alpha=-rate * factor(own[0]))
                continue
            for weight, local, update in zip(weights, own, updates, strict=True):
                joined = self.join(weight, update)
                whole = orthogonal(joined[None])[0].to(local.dtype)
                local.add_(local_part(self.share(weight, whole)), alpha=-rate * factor(whole))


def factor(matrix: Tensor) -> float:
    rows, columns = matrix.shape
    return math.sqrt(max(1, rows / columns))


def orthogonal(matrices: Tensor) -> Tensor:
    """(N, rows, columns): about U V^T of each singular value decomposition U S V^T, by Newton-Schulz in bf16."""
    x = matrices.bfloat16()
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x.mT if is_tall else x
