"""Muon: the update of a matrix is its orthogonalized momentum (Jordan et al. 2024,
https://kellerjordan.github.io/posts/muon). torch.optim.Muon does the same one matrix at a time; here all matrices of
one shape are batched, which is several times as fast on a GPU."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

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
            gradients = [weight.grad for weight in weights]
            means = [self.state[weight]["momentum_buffer"] for weight in weights]
            torch._foreach_lerp_(means, gradients, 1 - momentum)
            updates = torch.stack(torch._foreach_lerp(gradients, means, momentum))  # Nesterov momentum
            updates = orthogonal(updates).to(weights[0].dtype)
            rows, columns = weights[0].shape
            torch._foreach_mul_(weights, 1 - rate * group["weight_decay"])
            torch._foreach_add_(weights, list(updates), alpha=-rate * math.sqrt(max(1, rows / columns)))


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
