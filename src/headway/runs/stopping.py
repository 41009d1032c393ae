"""When a run ends, and which of its weights are the final ones."""

import math
from collections.abc import Mapping
from dataclasses import replace

from headway.config.recipe import TrainSpec
from headway.metrics import gain, worst
from headway.tasks import Task
from headway.training.checkpoint import Progress
from headway.training.schedules import Schedule


def keeps_best(spec: TrainSpec) -> bool:
    """Whether the final weights are the best ones: if a metric or a patience is set."""
    return spec.stop_on is not None or spec.patience is not None


def metric_of(task: Task) -> str:
    return task.recipe.train.stop_on or task.usual_metric


def remember(
    progress: Progress, validation: Mapping[str, Mapping[str, float]], spec: TrainSpec, metric: str
) -> Progress:
    """The best weights are those with the best metric, and among equals those with the lowest loss. A value is an
    improvement if it gains more than ``min_delta``. Where no metric was chosen, a lower loss is one as well: accuracy
    may stand still for long."""
    has_loss = all("loss" in metrics for metrics in validation.values())
    value, loss = worst(metric, validation), worst("loss", validation) if has_loss else None
    difference = math.inf if progress.best is None else gain(metric, value, progress.best)
    is_tie = difference == 0 and falls(loss, progress.best_loss)
    if difference > spec.min_delta or is_tie:
        progress = replace(progress, best=value, best_step=progress.step, best_loss=loss)
    goes_on = spec.stop_on is None and falls(loss, progress.lowest_loss, spec.min_delta)
    if loss is not None and (progress.lowest_loss is None or loss < progress.lowest_loss):
        progress = replace(progress, lowest_loss=loss)
    return replace(progress, stale=0 if goes_on or progress.best_step == progress.step else progress.stale + 1)


def falls(loss: float | None, before: float | None, by: float = 0.0) -> bool:
    return loss is not None and before is not None and before - loss > by


def why_over(progress: Progress, spec: TrainSpec, metric: str, is_last: bool) -> str | None:
    """Why training has ended; None: it goes on. ``is_last`` is what the clock says of the step."""
    if progress.step >= spec.steps:
        return "all steps are done"
    if spec.patience is not None and progress.stale >= spec.patience:
        either = metric if spec.stop_on is not None or metric == "loss" else f"{metric} or loss"
        return f"no gain in {either} for {progress.stale} evaluations"
    return time_is_over(spec) if is_last else None


def time_is_over(spec: TrainSpec) -> str:
    return f"{spec.minutes:g} minutes are over"


def reopened(progress: Progress, spec: TrainSpec, metric: str) -> Progress:
    """A run that has ended goes on if its settings allow more now."""
    if progress.ended is None:
        return progress
    is_late = spec.minutes is not None and progress.seconds >= 60 * spec.minutes
    is_last = is_late or (spec.minutes is not None and progress.ended == time_is_over(spec))
    return replace(progress, ended=why_over(progress, spec, metric, is_last))


def goes_on(before: Progress, after: Progress, spec: TrainSpec) -> list[str]:
    """A note about a run that was opened again."""
    if before.ended is None or after.ended is not None:
        return []
    rate = spec.learning_rate * Schedule(spec)(after.step + 1)
    schedule = f"the learning rate is {rate:.1e} again, as the schedule of {spec.steps:,} steps has it there"
    return [f"the run had ended ({before.ended}) and continues from step {after.step:,}; {schedule}"]


def late_warmup(spec: TrainSpec) -> list[str]:
    if spec.warmup < spec.steps:
        return []
    late = f"train.warmup={spec.warmup} is not below the {spec.steps} steps: the learning rate never peaks"
    return [f"{late}; set a shorter warm-up, or train longer"]
