"""Fitting: train a new run, or resume one.

fit = start(recipes.task("parity"))
for step in fit.steps():
    print(step.number, step.loss)
"""

import shutil
import signal
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from headway.config.errors import Problem
from headway.config.parallel import layout_of
from headway.config.recipe import Recipe
from headway.data.batch import Batch
from headway.data.dataset import Dataset
from headway.data.files import Progress as ShowProgress
from headway.data.files import silent
from headway.data.samplers import with_steps
from headway.data.storage import sweep, write_whole
from headway.recipes import refuse_recipe_as_start
from headway.recipes.size import refuse_long, refuse_too_large
from headway.runs.clock import Clock
from headway.runs.results import measure, set_aside, write_down
from headway.runs.run import RECIPE, Run, size_of
from headway.runs.segments import changes, explained, lost, move, record
from headway.runs.stopping import goes_on, keeps_best, late_warmup, metric_of, remember, reopened, why_over
from headway.runs.warm_start import initialize_embeddings, release, vectors_for, warm_start
from headway.tasks import TASKS, Task
from headway.tasks.abilities import Concludes, Finding, HasState, Loops, Monitored, TrainsItself, UsesRuns, can, need
from headway.tasks.word2vec.word_vectors import WordVectors
from headway.training import checkpoint
from headway.training.checkpoint import Progress
from headway.training.fabric import SingleProcess, give_back_memory, launch
from headway.training.finite import NotFinite
from headway.training.loop import Interrupt, Loop, Metrics, Step
from headway.training.metrics_log import METRICS, MetricsLog, validations
from headway.training.shares import ranks_of
from headway.training.sharing import Sharing


def start(what: Recipe | Task, folder: str | Path | None = None, show: ShowProgress = silent) -> "Fit":
    """Make a new run, ready to train; ``show`` reports the progress of reading its data."""
    task = TASKS[what.task](what) if isinstance(what, Recipe) else what
    recipe = task.recipe
    refuse_recipe_as_start(recipe)
    fabric = processes_for(task)
    run, path, refusal, vectors = None, "", None, None
    if fabric.is_global_zero:
        try:
            vectors = vectors_for(task)
            run = create(task, folder, show)
            path = str(run.folder)
        except Problem as error:
            refusal = error
    path, problem = fabric.broadcast((path, str(refusal or "")))
    if problem:
        raise refusal or Problem(problem)
    try:
        fit = Fit(fabric, run or Run(path), show, vectors)
        if folder is not None and Path(folder) != fit.run.folder:
            fit.notes.insert(0, f"{folder} already exists: this run is {fit.run.folder}")
        return fit
    except (Problem, KeyboardInterrupt):  # with the warm start, say: nothing has been trained
        if fabric.is_global_zero:
            shutil.rmtree(path, ignore_errors=True)
        raise


def create(task: Task, folder: str | Path | None, show: ShowProgress) -> Run:
    """Problems with the data or the rewards come up before the folder is made."""
    if can(task, UsesRuns):
        need(task, UsesRuns).connect(Run)
    task.prepare(show)
    run = Run.create(task.recipe, folder, task.save)
    run.recipe, run.task = task.recipe, task  # no need to read them back
    return run


def resume(folder: str | Path, show: ShowProgress = silent, overrides: Sequence[str] = ()) -> "Fit":
    """Continue a run from its newest checkpoint, if it has one; ``overrides`` say where, and for how long."""
    run = Run(folder).without_links()
    changed = move(run, overrides)
    if can(run.task, UsesRuns):
        with run.naming_objects():
            need(run.task, UsesRuns).connect(Run)
    vectors = vectors_for(run.task) if run.newest()[0] is None else None
    fit = Fit(processes_for(run.task), run, show, vectors)
    if changed is not None and fit.fabric.is_global_zero:
        write_whole(run.folder / RECIPE, changed)
    return fit


def processes_for(task: Task) -> Any:
    """Fabric, or a single process for a task that trains itself."""
    return (SingleProcess if can(task, TrainsItself) else launch)(task.recipe.train)


class Fit:
    def __init__(self, fabric: Any, run: Run, show: ShowProgress = silent, vectors: WordVectors | None = None):
        self.fabric, self.run, self.recipe, self.task = fabric, run, run.recipe, run.task
        self.ranks = ranks_of(layout_of(run.recipe.train), fabric.global_rank)
        rows = self.ranks["data"]
        self.sharing = Sharing(rows.rank, rows.size, fabric.device, rows.group)
        self.lock = run.lock()
        self.take_lock()
        try:
            self.set_up(show, vectors)
        except BaseException:
            self.lock.release()
            raise

    def set_up(self, show: ShowProgress, vectors: WordVectors | None) -> None:
        run = self.run
        refuse_too_large(self.task, self.fabric.device.type)
        if self.fabric.is_global_zero:
            sweep(run.checkpoints, settled=-1)
        torch.manual_seed(self.recipe.train.seed)
        show(f"building {self.recipe.model.layers:,} layers", 0.0)
        self.model = self.task.model()
        with self.fabric.rank_zero_first(local=True):  # of this machine: the others map what it has written
            self.splits = self.task.splits(show)
        give_back_memory()
        refuse_long(self.task, self.splits.train.longest().inputs.shape[1], self.fabric.device.type)
        self.sampler = self.splits.train.sampler(self.recipe.train)
        self.spec = spec = with_steps(self.recipe.train, self.sampler, show)
        self.notes = list(self.splits.notes)
        saved, damaged = run.newest()
        if self.recipe.start is not None and saved is None:
            self.notes += warm_start(self.model, self.task, self.recipe.start).notes()
        if vectors is not None:
            self.notes += initialize_embeddings(self.model, self.task, vectors)
        self.task.refuse_too_long(self.model, self.splits.sets)  # before anything is compiled
        self.loop = self.make_loop()
        self.clock = self.make_clock()
        self.progress = Progress()
        self.history: list[dict[str, float]] = []  # validation metrics
        self.alarms: list[str] = []  # about the last ones
        self.interrupted: signal.Signals | None = None
        self.notes += late_warmup(spec)
        if can(self.task, HasState):
            need(self.task, HasState).begin(self.model)
        self.notes += [f"{problem}: not used" for problem in damaged]
        if saved is not None:
            self.restore(saved)

    @property
    def parameters(self) -> int:
        return size_of(self.model)

    def make_loop(self) -> Loops:
        if can(self.task, TrainsItself):
            task, data = need(self.task, TrainsItself), self.splits.train
            return task.loop(self.model, data, self.sampler, self.spec, self.fabric.device)
        data = self.batch_at, self.spec, self.sampler.static_shapes
        return Loop(self.fabric, self.model, self.task.loss, *data, self.ranks)

    def take_lock(self) -> None:
        if self.fabric.is_global_zero and not self.lock.is_locked:
            self.run.take(self.lock)

    def rows_at(self, step: int) -> np.ndarray:
        return self.sampler.rows_at(step)

    def batch_at(self, step: int) -> Batch:
        with self.fabric.autocast():  # a policy generates its batches, in the run's precision
            return self.splits.train.batch(self.rows_at(step))

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Continue from a checkpoint."""
        self.loop.load(saved, checkpoint.folder_of(self.run.checkpoints, saved.step))
        if can(self.task, HasState):
            need(self.task, HasState).load_state_dict(self.model, saved.task_state)
        ended = Progress(**saved.progress)
        self.progress = reopened(ended, self.spec, metric_of(self.task))
        self.notes += goes_on(ended, self.progress, self.spec)
        measured = validations(self.run.folder / METRICS)
        self.history = [metrics for step, metrics in measured if step <= self.progress.step]
        self.notes += changes(self.run, self.spec)

    def __iter__(self) -> Iterator[Step]:
        return self.steps()

    def steps(self) -> Generator[Step]:
        """Train until the run ends or a signal stops it; either way it is saved."""
        self.run.__dict__.pop("network", None)  # what was loaded before is outdated
        self.take_lock()
        self.clock.start(self.progress.seconds)
        is_main, logged = self.fabric.is_global_zero, self.progress.step
        if not self.progress.step:
            with self.fabric.autocast():
                release(self.model, self.task, lambda: self.batch_at(1).to(self.fabric.device))
        if is_main and not self.progress.ended:
            set_aside(self.run, self.progress.step)
            record(self.run, self.spec, self.progress.step, self.fabric.device)
        try:
            with MetricsLog(self.run.folder, self.progress.step) if is_main else nullcontext() as log:
                with Interrupt() as interrupt:
                    done = self.progress.step
                    for step in () if self.progress.ended else self.loop.steps(done, self.clock.steps_at):
                        step = self.after_step(step)
                        if log is not None:
                            log.write_step(step, self.spec.log_every, self.progress.seconds)
                            logged = step.number
                        stop = self.any_process(interrupt.received is not None)
                        if stop or self.is_worth_saving():
                            self.save(log)
                        yield step
                        if stop or self.progress.ended:
                            break
                self.interrupted = interrupt.received
                is_over = self.progress.ended and self.interrupted is None
                if log is not None and is_over and not self.run.is_done:
                    self.write_results(log)
        except NotFinite as error:
            raise explained(self.run, error, self.rows_at(error.step)) from error
        except RuntimeError as error:
            if problem := lost(self.run, error, self.fabric.world_size):
                raise problem from None
            raise
        except Problem:  # with a reward, say
            self.refuse_removed()
            self.save_rest(logged)
            raise
        except GeneratorExit:  # a break out of the loop
            if (self.run.folder / RECIPE).exists():
                self.save_rest(logged)
            raise
        finally:
            self.clock.stop()
            self.lock.release()

    def after_step(self, step: Step) -> Step:
        """Evaluate, if it is time to, and update the progress."""
        self.progress = replace(self.progress, step=step.number)  # at once: it is what the weights are of
        self.clock.saw(step.number, step.seconds)
        is_last = self.clock.is_last(step.number)
        if is_last or step.number % self.spec.evaluate_every == 0:
            step = self.evaluated(step)
        progress = replace(self.progress, seconds=self.clock.seconds)
        self.progress = replace(progress, ended=why_over(progress, self.spec, metric_of(self.task), is_last))
        return step

    def evaluated(self, step: Step) -> Step:
        began = perf_counter()
        with self.loop.averaged():
            validation = self.measure(self.splits.validation)
        self.history.append(next(iter(validation.values())))
        if can(self.task, Monitored):
            self.alarms = need(self.task, Monitored).alarms(self.history)
        if keeps_best(self.spec):
            self.progress = remember(self.progress, validation, self.spec, metric_of(self.task))
        self.clock.evaluated_in(perf_counter() - began)
        return replace(step, validation=validation)

    def make_clock(self) -> Clock:
        """The first process decides for all."""
        batches = sum(len(data) for data in self.splits.validation.values()) / self.spec.batch_size
        share = self.fabric.broadcast if self.fabric.world_size > 1 else lambda steps: steps
        return Clock(self.spec, self.run.folder, batches, self.fabric.is_global_zero, share)

    def measure(self, sets: Mapping[str, Dataset]) -> Metrics:
        """In the run's precision."""
        with self.fabric.autocast():
            return {name: self.task.measure(self.model, data, self.sharing) for name, data in sets.items()}

    def any_process(self, value: bool) -> bool:
        """Whether it is true in any process: all of them must stop at the same step."""
        if self.fabric.world_size == 1:
            return value
        count = torch.tensor(float(value), device=self.fabric.device)
        return float(self.fabric.all_reduce(count, reduce_op="sum")) > 0

    def is_worth_saving(self) -> bool:
        progress = self.progress
        due = progress.step % self.spec.checkpoint_every == 0
        return due or progress.ended is not None or progress.best_step == progress.step

    def refuse_removed(self) -> None:
        if not (self.run.folder / RECIPE).exists():
            raise Problem(f"{self.run.folder} was removed while it was being trained")

    def save(self, log: MetricsLog | None = None) -> None:
        """The first process writes; with a model that is cut, it needs the shares of all."""
        if not (self.fabric.is_global_zero or self.ranks.cuts_model):
            return
        saved = self.loop.checkpoint(asdict(self.progress))
        if not self.fabric.is_global_zero:
            return
        self.refuse_removed()
        if log is not None:
            log.sync()
        if can(self.task, HasState):
            saved = replace(saved, task_state=need(self.task, HasState).state_dict(self.model))
        checkpoint.write(self.run.checkpoints, saved)
        checkpoint.prune(self.run.checkpoints)

    def save_rest(self, logged: int) -> None:
        """What has been trained since the last checkpoint, if it is logged: else the log would lack a step for ever."""
        is_new = self.progress.step not in {0, *checkpoint.steps_in(self.run.checkpoints)}
        if self.fabric.is_global_zero and not self.ranks.cuts_model and is_new and self.progress.step == logged:
            self.save()

    def preflight(self) -> list[Finding]:
        """The findings of a monitored task before its first step."""
        if self.progress.step or not can(self.task, Monitored):
            return []
        return need(self.task, Monitored).preflight(self.model, self.splits, self.fabric.autocast)

    def write_results(self, log: MetricsLog) -> None:
        """Evaluate the final weights on the test sets."""
        step = self.progress.best_step or self.progress.step
        if self.ranks.cuts_model:  # from here on, this process is alone
            torch.manual_seed(self.recipe.train.seed)
            self.model = self.task.model().to(self.fabric.device)
        if step != self.progress.step or self.spec.average != "none" or self.ranks.cuts_model:  # else they are there
            checkpoint.load_weights(self.model, self.run.final_checkpoint().weights, self.run.folder)
        self.model.eval()
        if can(self.task, Concludes):
            need(self.task, Concludes).conclude(self.model, self.splits, self.run.folder)
        measured = measure(self.run, self.task, self.model, self.splits.test, self.fabric.autocast)
        write_down(self.run, self.progress, size_of(self.model), measured, log)
