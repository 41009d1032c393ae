"""From the states of a sequence (B, T, D) to one vector (B, D); padding never leaks in.

``cls`` reads the first token, which the task puts there for this purpose (Devlin et al. 2019,
https://arxiv.org/abs/1810.04805).
"""

from collections.abc import Callable

import torch
from torch import Tensor

Pooling = Callable[[Tensor, Tensor | None], Tensor]


def cls(states: Tensor, real: Tensor | None = None) -> Tensor:
    return states[:, 0]


def last(states: Tensor, real: Tensor | None = None) -> Tensor:
    if real is None:
        return states[:, -1]
    ends = real.sum(dim=1).clamp(min=1) - 1
    return without_empty(states[torch.arange(len(states), device=states.device), ends], real)


def mean(states: Tensor, real: Tensor | None = None) -> Tensor:
    if real is None:
        return states.mean(dim=1)
    total = states.masked_fill(~real[..., None], 0.0).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True).clamp(min=1)


def maximum(states: Tensor, real: Tensor | None = None) -> Tensor:
    if real is None:
        return states.amax(dim=1)
    masked = states.masked_fill(~real[..., None], torch.finfo(states.dtype).min)
    return without_empty(masked.amax(dim=1), real)


def without_empty(pooled: Tensor, real: Tensor) -> Tensor:
    """Rows without a real token are zeros, as their mean is."""
    return pooled.masked_fill(~real.any(dim=1, keepdim=True), 0.0)


POOLINGS: dict[str, Pooling] = {"cls": cls, "mean": mean, "max": maximum, "last": last}
