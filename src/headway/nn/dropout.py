"""Dropout: each element is zeroed with probability p, and the others are divided by 1 - p (Srivastava et al. 2014,
https://jmlr.org/papers/v15/srivastava14a.html).

On a CPU, torch draws one random number per element on one core, which can cost more than the matrix products around it.
Here one 64-bit draw decides four elements, 16 bits each; so the probability is p to within 1/65536, and the scale uses
that rounded probability.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.errors import Problem

LEVELS = 1 << 16


def drop(x: Tensor, probability: float, training: bool) -> Tensor:
    if not training or probability == 0:
        return x
    if not 0 < probability < 1:
        raise Problem(f"dropout={probability} is not a probability: it must be at least 0 and below 1")
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    dropped = min(round(probability * LEVELS), LEVELS - 1)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    keep = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - LEVELS // 2
    return x * keep.to(x.dtype).mul_(LEVELS / (LEVELS - dropped))


def drop_tokens(real: Tensor | None, tokens: Tensor, probability: float, training: bool) -> Tensor | None:
    """Which tokens (B, T) are kept: the real ones, in training with whole tokens dropped at random.

    Unlike elements, the others are not scaled up: a text with missing words is still a text (Iyyer et al. 2015,
    https://aclanthology.org/P15-1162).
    """
    if not training or probability == 0:
        return real
    kept = torch.rand(tokens.shape, device=tokens.device) >= probability
    return kept if real is None else kept & real
