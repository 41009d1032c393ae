"""How long a run will take on this machine: before its first step, from a rehearsal of a part of one."""

from time import perf_counter

from headway.runs.fit import Fit
from headway.tasks.abilities import Monitored, TrainsItself, can
from headway.training.loop import Loop

PARTS = 4  # of a batch, one of which is rehearsed
MORE = 1.2  # times the gradient's time is that of a whole step, with the optimizer
FORWARD = 1 / 3  # of the gradient's time


def expected_seconds(fit: Fit) -> float | None:
    """Of a new run, with its evaluations; None: that is not known before. Nothing of the run changes."""
    is_plain = not can(fit.task, TrainsItself) and not can(fit.task, Monitored)  # others generate what they read
    is_here = fit.fabric.world_size == 1 and fit.fabric.device.type == "cpu"
    if fit.progress.step or not is_plain or not is_here:
        return None
    assert isinstance(fit.loop, Loop)
    gradient = gradient_seconds(fit.loop)
    evaluations = fit.spec.steps / fit.spec.evaluate_every * fit.clock.evaluated
    seconds = gradient * (fit.spec.steps * MORE + evaluations * FORWARD)
    limit = fit.spec.minutes
    return seconds if limit is None else min(seconds, 60 * limit)


def gradient_seconds(loop: Loop) -> float:
    """Of a batch, by a part of it: twice, because the first time sets things up."""
    batch = loop.batch_at(1)
    part = batch.split(PARTS)[0]
    loop.model.train()
    seconds = 0.0
    for _ in range(2):
        loop.seed_dropout(1, 0)
        began = perf_counter()
        loop.gradient_of(part, 1 / batch.count)
        seconds = perf_counter() - began
    for weight in loop.weights:
        weight.grad = None
    return seconds * batch.tokens / max(part.tokens, 1)
