"""Filters: functions from scores (B, V) to scores. What must not be chosen becomes minus infinity.

They are applied in the order in which they stand here.
"""

import math

from torch import Tensor


def penalise_repetition(scores: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Scores of tokens that were there, ``seen`` (B, T), are divided by the penalty if positive, else multiplied by it
    (Keskar et al. 2019, https://arxiv.org/abs/1909.05858). At most once each, however often they came."""
    found = scores.gather(1, seen)
    return scores.scatter(1, seen, found.where(found < 0, found / penalty).where(found >= 0, found * penalty))


def with_temperature(scores: Tensor, temperature: float) -> Tensor:
    return scores / temperature


def top_k(scores: Tensor, count: int) -> Tensor:
    """The ``count`` best; of equals at the edge, all."""
    least = scores.topk(min(count, scores.shape[-1])).values[:, -1:]
    return scores.masked_fill(scores < least, -math.inf)


def top_p(scores: Tensor, share: float) -> Tensor:
    """The fewest best that together have this probability at least (Holtzman et al. 2020,
    https://arxiv.org/abs/1904.09751)."""
    ordered, order = scores.sort(descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    return scores.masked_fill((before >= share).gather(1, order.argsort(dim=-1)), -math.inf)


def min_p(scores: Tensor, share: float) -> Tensor:
    """Those at least this share as likely as the best (Nguyen et al. 2024, https://arxiv.org/abs/2407.01082)."""
    return scores.masked_fill(scores < scores.amax(dim=-1, keepdim=True) + math.log(share), -math.inf)
