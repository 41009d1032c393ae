"""Filters: functions from scores (B, V) to scores. What must not be chosen becomes minus infinity.

They are applied in the order in which they stand here.
"""

import math

from torch import Tensor


def penalise_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Scores of tokens that were there, ``seen`` (B, T), are divided by the penalty if positive, else multiplied by it
    (Keskar et al. 2019, https://arxiv.org/abs/1909.05858). At most once each, however often they came."""
    found = logits.gather(1, seen)
    return logits.scatter(1, seen, found.where(found < 0, found / penalty).where(found >= 0, found * penalty))


def with_temperature(logits: Tensor, temperature: float) -> Tensor:
    return logits / temperature


def top_k(logits: Tensor, count: int) -> Tensor:
    """The ``count`` best; of equals at the edge, all."""
    least = logits.topk(min(count, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill(logits < least, -math.inf)


def top_p(logits: Tensor, share: float) -> Tensor:
    """The fewest best that together have this probability at least (Holtzman et al. 2020,
    https://arxiv.org/abs/1904.09751)."""
    ordered, order = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    return logits.masked_fill((before >= share).gather(1, order.argsort(dim=-1)), -math.inf)


def min_p(logits: Tensor, share: float) -> Tensor:
    """Those at least this share as likely as the best (Nguyen et al. 2024, https://arxiv.org/abs/2407.01082)."""
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) + math.log(share), -math.inf)
