"""Results: what a run has reached, on its test sets and so far."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from torch import nn

from headway.config.recipe import TrainSpec
from headway.data.dataset import Dataset
from headway.metrics import gain
from headway.runs.run import Run
from headway.tasks import Task
from headway.tasks.abilities import can, need
from headway.tasks.directions import slow_metrics
from headway.tasks.multilingual import HasLanguages
from headway.training.checkpoint import Progress


def measure(
    run: Run,
    task: Task,
    model: nn.Module,
    sets: Mapping[str, Dataset],
    autocast: Callable[[], AbstractContextManager[None]],
) -> dict[str, Any]:
    """The metrics on each set, those of each direction on each set and those of each language on the first; saves the
    predictions for single examples."""
    with autocast():
        evaluations = {name: task.evaluate(model, data) for name, data in sets.items()}
    predictions = {name: each.predictions for name, each in evaluations.items() if each.predictions is not None}
    if predictions:
        run.write_predictions(predictions)
    slow = {name: slow_metrics(task, model, data) for name, data in sets.items()}
    results: dict[str, Any] = {"test": {name: each.metrics | slow[name][0] for name, each in evaluations.items()}}
    if directions := {name: details["directions"] for name, (_, details) in slow.items() if details}:
        results["directions"] = directions
    if can(task, HasLanguages):
        languages = need(task, HasLanguages)
        with autocast():
            results["languages"] = languages.measure_languages(model, next(iter(sets.values())))
        results["test"] |= languages.language_means(results["languages"])
    return results


def remember(progress: Progress, value: float, spec: TrainSpec) -> Progress:
    """Early stopping: a value is an improvement if it gains more than ``min_delta``."""
    if progress.best is None or gain(spec.stop_on, value, progress.best) > spec.min_delta:
        return replace(progress, best=value, best_step=progress.step, stale=0)
    return replace(progress, stale=progress.stale + 1)
