"""Averages of the weights over the steps: their mean is evaluated and kept, while training goes on from the last.

An entry is a function of the step's number that says how far the average moves towards the weights of that step:

- none: all the way, so that there is no average
- ema: by 1 - decay, an exponential moving average; faster at first, when the weights change most
- last: so that it is the plain mean of the last share of all steps
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Rate = Callable[[int], float]


def none(number: int) -> float:
    return 1.0


def ema(number: int, decay: float = 0.999) -> float:
    if not 0 <= decay < 1:
        raise ValueError(f"a decay of {decay} is not from 0 to below 1")
    return max(1 - decay, 9 / (9 + number))


def last(number: int, steps: int, share: float = 0.2) -> float:
    if not 0 < share <= 1:
        raise ValueError(f"a share of {share} is not above 0 and at most 1")
    return 1 / max(number - int((1 - share) * steps), 1)


AVERAGES: dict[str, Callable[..., float]] = {"none": none, "ema": ema, "last": last}


class Average:
    def __init__(self, model: nn.Module, rate: Rate):
        self.model, self.rate = model, rate
        self.now = [weight.detach() for weight in model.parameters()]
        self.weights = [weight.clone() for weight in self.now]

    def update(self, number: int) -> None:
        torch._foreach_lerp_(self.weights, self.now, self.rate(number))

    def swap(self) -> None:
        for mean, now in zip(self.weights, self.now, strict=True):
            kept = now.clone()
            now.copy_(mean)
            mean.copy_(kept)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """With the average in the model's place."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    def load(self, weights: dict[str, Tensor]) -> None:
        for mean, (name, _) in zip(self.weights, self.model.named_parameters(), strict=True):
            mean.copy_(weights[name])
