"""What a translator is trained to do with the scores (B, T, V) or (N, V) that it gives the right tokens.

- likelihood: the right token likely, with a share of smoothing
- rdrop: the same, twice with different dropout, and both times alike (Liang et al. 2021,
  https://arxiv.org/abs/2106.14448): half of L1 + L2 + weight / 2 (KL(1 | 2) + KL(2 | 1))

An entry says how often it wants each row scored, and makes the loss of the scores, rows first to last, over and over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally


class Objective(Protocol):
    times: int  # how often each row is scored

    @property
    def smoothing(self) -> float: ...

    def __call__(self, scores: Tensor, targets: Tensor, weights: Tensor | None) -> Tally: ...


@dataclass(frozen=True)
class Likelihood:
    smoothing: float = 0.1
    times = 1

    def __post_init__(self) -> None:
        refuse_odd(self.smoothing)

    def __call__(self, scores: Tensor, targets: Tensor, weights: Tensor | None) -> Tally:
        return cross_entropy(scores, targets, weights, self.smoothing)


@dataclass(frozen=True)
class RDrop:
    weight: float = 5.0
    smoothing: float = 0.1
    times = 2

    def __post_init__(self) -> None:
        refuse_odd(self.smoothing)
        if self.weight < 0:
            raise ValueError(f"a weight of {self.weight} is below 0")

    def __call__(self, scores: Tensor, targets: Tensor, weights: Tensor | None) -> Tally:
        likelihoods = [cross_entropy(each, targets, weights, self.smoothing) for each in scores.chunk(2)]
        first, second = scores.float().log_softmax(dim=-1).chunk(2)
        # Of KL(1 | 2) + KL(2 | 1) = sum (p1 - p2)(log p1 - log p2).
        apart = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1)
        if weights is not None:
            apart = apart.masked_fill(~weights, 0.0)
        both = likelihoods[0].total + likelihoods[1].total
        return Tally((both + self.weight / 2 * apart.sum()) / 2, likelihoods[0].count)


def refuse_odd(smoothing: float) -> None:
    if not 0 <= smoothing < 1:
        raise ValueError(f"a smoothing of {smoothing} is not from 0 to below 1")


OBJECTIVES: dict[str, Callable[..., Objective]] = {"likelihood": Likelihood, "rdrop": RDrop}
