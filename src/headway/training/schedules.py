"""Schedules: functions from the step to a factor of the learning rate between 0 and 1.

Steps are 1, 2, ... ``steps``; step 0 is the moment before the first, and 0.5 the middle of it.
"""

import math
from collections.abc import Callable
from typing import Any

from headway.config.parts import bind
from headway.config.recipe import TrainSpec


def constant(step: float) -> float:
    return 1.0


def linear(step: float, warmup: int, steps: int) -> float:
    """Linear warm-up and linear decay: 0 at step 0, 1 at the last warm-up step, 0 at the last step."""
    # learn: begin train.warmup
    return min(climb(step, warmup), fall(step, warmup, steps))
    # learn: end


def cosine(step: float, warmup: int, steps: int, from_peak: bool = True) -> float:
    """Linear warm-up, then half a cosine wave from 1 at the last warm-up step to 0 at the last step (Loshchilov &
    Hutter 2017, https://arxiv.org/abs/1608.03983). Without ``from_peak``, the wave starts at step 0 and is multiplied
    by the warm-up, so that the peak stays below 1."""
    start = min(warmup, steps - 1) if from_peak else 0
    wave = (1 + math.cos(math.pi * max(step - start, 0) / (steps - start))) / 2
    return climb(step, warmup) * wave


def inverse_square_root(step: float, warmup: int) -> float:
    """Linear warm-up, then sqrt(warmup / step) (Vaswani et al. 2017, section 5.3)."""
    # learn: begin train.inverse_root
    return min(climb(step, warmup), math.sqrt(max(warmup, 1) / max(step, 1)))
    # learn: end


def warmup_stable_decay(step: float, warmup: int, steps: int, decay: float = 0.2) -> float:
    """Linear warm-up, then 1, then linear decay to 0 over the last fraction ``decay`` of the steps
    (Hu et al. 2024, https://arxiv.org/abs/2404.06395)."""
    return min(climb(step, warmup), fall(step, steps - decay * steps, steps))


def climb(step: float, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def fall(step: float, start: float, steps: int) -> float:
    """1 up to ``start``, then linearly to 0 at the last step."""
    return min(1.0, (steps - step) / (steps - start)) if start < steps else 1.0


class Schedule:
    """That of a run, whose number of steps may turn out to be another one: with a time limit, say."""

    def __init__(self, spec: TrainSpec):
        self.spec = spec
        self.factor: Any = bind(SCHEDULES, spec.schedule, "train.schedule", warmup=spec.warmup, steps=spec.steps)

    def __call__(self, step: float, steps: float | None = None) -> float:
        """The factor of a step, in a run of so many ``steps``. In fewer than planned, the warm-up is a quarter of them
        at most."""
        if steps in (None, self.spec.steps):
            return float(self.factor(step))
        changed = {"steps": steps, "warmup": min(self.spec.warmup, steps / 4)}
        return float(self.factor(step, **{name: changed[name] for name in changed.keys() & self.factor.keywords}))


SCHEDULES: dict[str, Callable[..., float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "inverse_square_root": inverse_square_root,
    "warmup_stable_decay": warmup_stable_decay,
}
