"""Results: what a finished run has reached on its test sets."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from headway.data.dataset import Dataset
from headway.runs.run import Run
from headway.tasks import Task
from headway.tasks.abilities import can, need
from headway.tasks.multilingual import HasLanguages


def measure(
    run: Run,
    task: Task,
    model: nn.Module,
    sets: Mapping[str, Dataset],
    autocast: Callable[[], AbstractContextManager[None]],
) -> dict[str, Any]:
    """The metrics on each set, and those of each language on the first; saves the predictions for single examples."""
    with autocast():
        evaluations = {name: task.evaluate(model, data) for name, data in sets.items()}
    predictions = {name: each.predictions for name, each in evaluations.items() if each.predictions is not None}
    if predictions:
        run.write_predictions(predictions)
    test = {name: each.metrics | task.test_metrics(model, sets[name]) for name, each in evaluations.items()}
    if not can(task, HasLanguages):
        return {"test": test}
    languages = need(task, HasLanguages)
    with autocast():
        by_language = languages.measure_languages(model, next(iter(sets.values())))
    return {"test": test | languages.language_means(by_language), "languages": by_language}
