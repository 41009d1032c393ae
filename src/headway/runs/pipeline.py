"""Pipelines: the recipes that a recipe needs are trained first, each as a run of its own."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headway import recipes
from headway.config.errors import BadSetting, Interrupted, Problem, key_prefix
from headway.config.parallel import layout_of
from headway.config.recipe import Recipe
from headway.config.settings import rows
from headway.data.files import Progress, silent
from headway.data.memory import portable
from headway.runs.fit import Fit, resume, start
from headway.runs.run import RECIPE, Run
from headway.tasks import TASKS, Task
from headway.tasks.abilities import MakesData, can, need
from headway.training.world import is_restarted, may_restart


@dataclass(frozen=True)
class RunFolders:
    """Where the runs of a pipeline go: those of earlier stages beside the last one, or all into one ``parent``, where
    existing runs are continued."""

    run: Path | None = None
    parent: Path | None = None

    def stage(self, name: str) -> "RunFolders":
        if self.parent is not None:
            return RunFolders(self.parent / name, self.parent)
        return self if self.run is None else RunFolders(self.run.with_name(f"{self.run.name}-{name}"))

    def data(self, recipe: Recipe) -> Path:
        """The file for training data that a run generates."""
        if self.parent is not None:
            return self.parent / "rankings.jsonl"
        base = self.run or Path("runs") / recipe.name
        names = (base.with_name(f"{base.name}-{number}.jsonl") for number in count(1))
        return next(name for name in names if not name.exists())  # older runs need the older files

    @property
    def existing(self) -> Path | None:
        """The run to continue: of a pipeline that is carried out again, or whose processes torchrun starts again."""
        continues = self.parent is not None or is_restarted()
        exists = continues and self.run is not None and (self.run / RECIPE).is_file()
        return self.run if exists else None


@runtime_checkable
class Reporter(Protocol):
    """What a person sees of a pipeline."""

    def reading(self) -> AbstractContextManager[Progress]:
        """Shows how far the reading of data is."""

    def say(self, line: str) -> None: ...

    def follow(self, fit: Fit) -> None:
        """Train a run to its end, and show its steps."""


class Silent:
    """A reporter that shows nothing."""

    def reading(self) -> AbstractContextManager[Progress]:
        return nullcontext(silent)

    def say(self, line: str) -> None:
        pass

    def follow(self, fit: Fit) -> None:
        for _ in fit:
            pass


def carry_out(fit: Fit, reporter: Reporter) -> None:
    """Train a run to its end; raises Interrupted if a signal stopped it."""
    if not fit.fabric.is_global_zero:  # one of several processes: only the first one reports, and goes on afterwards
        Silent().follow(fit)
        sys.exit()
    reporter.follow(fit)
    if fit.interrupted is not None:
        raise Interrupted(fit.run.folder, fit.progress.step, fit.interrupted)


def train(name: str | Path, overrides: Sequence[str], folders: RunFolders, reporter: Reporter) -> Fit:
    """Train what a recipe starts from, the stages that its settings name, and the recipe itself."""
    fit = prepare(name, overrides, folders, reporter)
    carry_out(fit, reporter)
    return fit


def prepare(name: str | Path, overrides: Sequence[str], folders: RunFolders, reporter: Reporter) -> Fit:
    """The same, up to the first step of the recipe itself."""
    if folders.run is None and may_restart():
        raise Problem("torchrun --max-restarts continues a run whose folder it knows: name it with --out")
    own, of_start = recipes.split_overrides(overrides)
    task, own, of_stages = with_stages(name, own, of_start)
    if recipes.is_recipe(task.recipe.start):
        if layout_of(task.recipe.train).world > 1:  # each of them would run this command from the beginning
            raise Problem(f"with several processes, train {task.recipe.start} first, and set start to its run")
        task.check_files()
        own.append(f"start={train(task.recipe.start, of_start, folders.stage('start'), reporter).run.folder}")
        task = recipes.task(name, own)
    changed = []
    for stage, (recipe, of_stage) in of_stages.items():
        run = train(recipe, [*of_stage, f"start={task.recipe.start}"], folders.stage(stage), reporter).run
        changed.append(f"{task.stages[stage]}={run.folder}")
    changed += make_data(task, folders, reporter)
    task = recipes.task(name, [*own, *changed]) if changed else task
    if folders.existing is not None:
        refuse_other_settings(Run(folders.existing), task.recipe)
    with reporter.reading() as show:
        return resume(folders.existing, show) if folders.existing else start(task, folders.run, show)


def with_stages(
    name: str | Path, own: list[str], of_start: list[str]
) -> tuple[Task, list[str], dict[str, tuple[str, list[str]]]]:
    """The task, its own overrides, and the recipes of its stages with theirs, which are checked before any training."""
    of_stage: dict[str, list[str]] = {}
    for stage in {stage for kind in TASKS.values() for stage in kind.stages}:
        own, of_stage[stage] = recipes.split_overrides(own, f"{stage}.")
    task = recipes.task(name, [*own, *(recipes.START + override for override in of_start)])
    stages: dict[str, tuple[str, list[str]]] = {}
    for stage, overrides in of_stage.items():
        recipe = value_at(task.recipe, task.stages[stage]) if stage in task.stages else None
        if recipes.is_recipe(recipe):
            with key_prefix(f"{stage}."):
                recipes.load(recipe, overrides)
            stages[stage] = recipe, overrides
        elif overrides:
            raise BadSetting(f"{stage}.{overrides[0]}", f"there is no recipe for the {stage}")
    return task, own, stages


def value_at(recipe: Recipe, key: str) -> Any:
    return next(row.value for row in rows(recipe) if row.key == key)


def make_data(task: Task, folders: RunFolders, reporter: Reporter) -> list[str]:
    """Let the run that a task starts from generate its training data, if it has none; returns the overrides to use
    them."""
    if not can(task, MakesData) or not need(task, MakesData).lacks_data():
        return []
    path = folders.data(task.recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    with reporter.reading() as show:
        message, overrides = need(task, MakesData).make_data(path, Run, show)
    reporter.say(message)
    return overrides


def refuse_other_settings(run: Run, recipe: Recipe) -> None:
    """A run that is continued keeps its settings."""
    settings = {row.key: row.value for row in rows(portable(run.recipe, run.folder))}
    for row in rows(portable(recipe)):
        if settings.get(row.key) != row.value:
            raise Problem(
                f"{run.folder} has {row.key}={settings.get(row.key)}, not {row.key}={row.value}: choose another --out"
            )
