"""The same budget for all variants: a number of epochs, steps, minutes or FLOPs."""

import re
from typing import Any

import numpy as np
from torch import nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.data.batch import Batch
from headway.lab.overview import prepared, step_flops
from headway.recipes.size import refuse_too_large
from headway.runs.run import Run
from headway.runs.warm_start import warm_start
from headway.tasks import TASKS
from headway.tasks.abilities import HasState, UsesRuns, can, need
from headway.training.fabric import launch, pick_device
from headway.training.loop import Loop

MEASURED_STEPS, WARM_UP = 20, 3
KINDS = ("epochs", "steps", "minutes", "flops")


def budget_overrides(budget: str | None, recipe: Recipe) -> list[str]:
    """The overrides that hold a recipe to a budget such as ``epochs=3``, ``steps=500``, ``minutes=2``, ``flops=1e13``.

    Time and FLOPs are converted to steps, so that the learning rate runs through its whole schedule.
    """
    if budget is None:
        return []
    match = re.fullmatch(rf"({'|'.join(KINDS)})=(\d+(?:\.\d+)?(?:e\+?\d\d?)?)", budget.strip())
    if match is None or float(match[2]) <= 0:
        raise Problem(f"budget {budget!r} is not of the form epochs=3, steps=500, minutes=2 or flops=1e13")
    kind, amount = match[1], float(match[2])
    if kind == "epochs":
        return [f"train.epochs={amount:g}"]
    if kind == "minutes":
        amount *= 60 / seconds_per_step(recipe)
    if kind == "flops":
        if recipe.model.layers == 0:
            raise Problem(f"{recipe.name} has no layers, and FLOPs are counted in layers: use a budget of minutes")
        amount /= flops_per_step(recipe)
    return ["train.epochs=none", f"train.steps={max(1, round(amount))}"]


class Rehearsal:
    """A recipe with its data, for measuring a few steps."""

    def __init__(self, recipe: Recipe):
        self.spec, self.task = recipe.train, prepared(TASKS[recipe.task](recipe))
        refuse_too_large(self.task, pick_device(self.spec.device))
        self.train: Any = self.task.splits().train
        self.sampler = self.train.sampler(self.spec)

    def model(self) -> nn.Module:
        """As training begins with it: with the weights of the run it starts from, and known to its task."""
        model, task = self.task.model(), self.task
        if can(task, UsesRuns):
            need(task, UsesRuns).connect(Run)
        if self.task.recipe.start is not None:
            warm_start(model, task, self.task.recipe.start)
        if can(task, HasState):
            need(task, HasState).begin(model)
        return model

    def batch_at(self, step: int) -> Batch:
        return self.train.batch(self.sampler.rows_at(step))


def seconds_per_step(recipe: Recipe) -> float:
    """The mean over a few training steps, after a warm-up."""
    rehearsal = Rehearsal(recipe)
    loop = Loop(launch(rehearsal.spec), rehearsal.model(), rehearsal.task.loss, rehearsal.batch_at, rehearsal.spec)
    seconds = [loop.step(number).seconds for number in range(1, MEASURED_STEPS + 1)]
    return float(np.mean(seconds[WARM_UP:]))


def flops_per_step(recipe: Recipe) -> float:
    rehearsal = Rehearsal(recipe)
    model = rehearsal.task.model()
    steps = range(1, MEASURED_STEPS + 1)
    return float(np.mean([step_flops(rehearsal.task, model, rehearsal.batch_at(step)) for step in steps]))
