"""Results: what a run has reached, on its test sets and so far."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from headway.config.settings import rows
from headway.data.dataset import Dataset
from headway.data.storage import write_whole
from headway.runs.run import RESULTS, Run
from headway.tasks import Task
from headway.tasks.abilities import can, need
from headway.tasks.directions import slow_metrics
from headway.tasks.multilingual import HasLanguages
from headway.training.checkpoint import Progress
from headway.training.metrics_log import MetricsLog


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


def write_down(run: Run, progress: Progress, parameters: int, measured: dict[str, Any], log: MetricsLog) -> None:
    results = {
        "steps": progress.step,
        "seconds": round(progress.seconds, 1),
        "ended": progress.ended,
        "parameters": parameters,
        "weights_of_step": progress.best_step or progress.step,
        **measured,
    }
    write_whole(run.folder / RESULTS, json.dumps(results, indent=2))
    log.write_outcome({row.key: row.value for row in rows(run.recipe)}, {"test": results["test"]})


def set_aside(run: Run, step: int) -> None:
    """The results of a run that goes on are those of an earlier step from now on."""
    if run.is_done:
        (run.folder / RESULTS).rename(run.folder / f"results-of-step-{step}.json")
