"""Checks of a recipe before training: do data and model fit together, and can the model learn at all?"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.data.batch import Batch
from headway.data.dataset import Dataset
from headway.data.samplers import Sampler, with_steps
from headway.data.sequences import LabelledSequences
from headway.lab.budget import Rehearsal
from headway.tasks import Task
from headway.tasks.abilities import Monitored, Predicts, can, need
from headway.training.fabric import launch
from headway.training.finite import NotFinite
from headway.training.loop import Loop

OVERFIT_STEPS, OVERFIT_EXAMPLES = 300, 64


@dataclass(frozen=True)
class Finding:
    what: str
    good: bool
    detail: str


def check(recipe: Recipe) -> Iterator[Finding]:
    """Findings as they are made, the slow ones last."""
    rehearsal = Rehearsal(recipe)
    task = rehearsal.task
    splits = task.splits()
    yield sizes_fit(splits.sets, recipe.train.batch_size)
    if can(task, Predicts):
        yield classes_are_balanced(splits.train)
    torch.manual_seed(recipe.train.seed)
    if can(task, Monitored):  # its loss has no target: it is checked as before its training
        yield from first_steps(rehearsal)
        return
    yield lengths_fit(task, task.model(), splits.sets)
    order = rehearsal.sampler
    first = splits.train.batch(order.rows_at(1)[:OVERFIT_EXAMPLES])
    model = task.model()
    with torch.no_grad():
        loss = task.loss(model, first).mean.item()
    close = abs(loss - task.chance) < 0.2 * task.chance
    yield Finding("first loss", close, f"{loss:.3f}; an untrained model should have ln(classes) = {task.chance:.3f}")
    yield from overfits(recipe, task, first, order)


def sizes_fit(sets: Mapping[str, Dataset], batch_size: int) -> Finding:
    good = len(sets["train"]) >= batch_size and all(len(data) > 0 for data in sets.values())
    return Finding("examples", good, ", ".join(f"{name} {len(data):,}" for name, data in sets.items()))


def classes_are_balanced(train: LabelledSequences) -> Finding:
    shares = np.bincount(train.labels) / len(train)
    detail = f"the most frequent class is {shares.max():.0%} of the training data"
    return Finding("classes", bool(shares.max() < 0.95), detail)


def first_steps(rehearsal: Rehearsal) -> Iterator[Finding]:
    """The findings of a monitored task, and the time of a round: its first step also makes its data."""
    task, splits, model = rehearsal.task, rehearsal.task.splits(), rehearsal.model()
    yield lengths_fit(task, model, splits.sets)
    loop = Loop(launch(rehearsal.spec), model, task.loss, rehearsal.batch_at, rehearsal.spec)
    for good, message in need(task, Monitored).preflight(model, splits, loop.fabric.autocast):
        yield Finding("preflight", good, message)
    first, *others = [loop.step(number).seconds for number in range(1, 4)]
    steps, per_round = with_steps(rehearsal.spec, rehearsal.sampler).steps, rehearsal.sampler.steps_in(1)
    yield Finding("time", *lasting(float(np.median(others)) * steps + first * steps / per_round, steps))


def lasting(seconds: float, steps: int) -> tuple[bool, str]:
    return True, f"about {seconds:,.0f} s for {steps:,} steps, without evaluations"


def lengths_fit(task: Task, model: nn.Module, sets: Mapping[str, Dataset]) -> Finding:
    """Whether the longest sequence of each set fits the model."""
    try:
        task.refuse_too_long(model, sets)
    except Problem as problem:
        return Finding("lengths", False, str(problem))
    longest = max(data.longest().inputs.shape[1] for data in sets.values())
    return Finding("lengths", True, f"the longest sequence has {longest} tokens")


def overfits(recipe: Recipe, task: Task, batch: Batch, order: Sampler) -> Iterator[Finding]:
    """Whether a model without dropout can overfit one batch, and how long training would take."""
    spec = replace(recipe.train, steps=OVERFIT_STEPS, schedule="constant", processes=1, parallel=None, nodes=1)
    without_dropout = copy(task)
    without_dropout.recipe = replace(
        recipe, model=replace(recipe.model, dropout=0.0, attention_dropout=0.0, token_dropout=0.0, head_dropout=0.0)
    )
    loop = Loop(launch(spec), without_dropout.model(), task.loss, lambda step: batch, spec)
    seconds, target = [], task.floor + (task.chance - task.floor) / 10
    try:
        for step in loop.steps():
            seconds.append(step.seconds)
            if step.loss < target:
                break
    except NotFinite as problem:
        yield Finding("overfits a batch", False, str(problem))
        return
    detail = f"a loss of {step.loss:.3f} after {step.number} steps on {len(batch)} examples"
    yield Finding("overfits a batch", step.loss < target, detail)
    steps = with_steps(recipe.train, order).steps
    yield Finding("time", *lasting(float(np.median(seconds)) * steps, steps))
