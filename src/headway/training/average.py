"""Weight averaging: the averaged weights are evaluated and saved, while training continues with the current ones.

An entry is a function from the step to the rate at which the average moves towards the weights of that step:

- none: 1, no averaging
- ema: 1 - decay, an exponential moving average; faster at first, when the weights change most
- last: the plain mean over the last ``share`` of all steps
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature

import torch
from torch import nn

from headway.nn.collectives import local_part


def none(number: int) -> float:
    return 1.0


def ema(number: int, decay: float = 0.999) -> float:
    if not 0 <= decay < 1:
        raise ValueError(f"decay={decay} must be at least 0 and below 1")
    return max(1 - decay, 9 / (9 + number))


def last(number: int, steps: float, share: float = 0.2) -> float:
    if not 0 < share <= 1:
        raise ValueError(f"share={share} must be above 0 and at most 1")
    return 1 / max(number - int((1 - share) * steps), 1)


AVERAGES: dict[str, Callable[..., float]] = {"none": none, "ema": ema, "last": last}


class Average:
    def __init__(self, model: nn.Module, rate: Callable[..., float]):
        self.rate, self.takes_steps = rate, "steps" in signature(rate).parameters
        self.current = [local_part(weight.detach()) for weight in model.parameters()]
        self.weights = [weight.clone() for weight in self.current]

    def update(self, number: int, steps: float | None = None) -> None:
        """``steps`` is their number in the whole run, if it is not the one that was planned."""
        changed = {"steps": steps} if steps is not None and self.takes_steps else {}
        torch._foreach_lerp_(self.weights, self.current, self.rate(number, **changed))

    def swap(self) -> None:
        for mean, current in zip(self.weights, self.current, strict=True):
            copy = current.clone()
            current.copy_(mean)
            mean.copy_(copy)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averaged weights inside the block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    def restart(self) -> None:
        """The mean is what the model has now."""
        torch._foreach_copy_(self.weights, self.current)
