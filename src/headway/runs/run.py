"""A run: a recipe, trained in a folder of its own.

runs/parity-1/
    recipe.toml      the recipe with every setting
    about.json       versions of Python, torch and headway, the seed, the number of threads; its segments
    data-*.parquet   data from memory that it was trained on, if any
    metrics.jsonl    one record per line; tensorboard/ has the same
    clock.jsonl      with a time limit, what the clock said at each step
    checkpoints/     see headway/training/checkpoint.py
    results.json     the test metrics, once it is done; predictions.safetensors: one for each test example
    lock             held by the process that trains
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import nn

from headway import __version__, recipes
from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.config.json_files import NUMBER, read_json
from headway.config.recipe import Recipe
from headway.config.settings import to_toml
from headway.data.memory import copy_own_files, located, portable
from headway.data.storage import is_held, new_file, new_folder
from headway.metrics import worst
from headway.metrics.classification import Predictions
from headway.recipes.registry import adopt
from headway.recipes.size import refuse_more_layers
from headway.tasks import TASKS, Task
from headway.training import checkpoint
from headway.training.checkpoint import Checkpoint
from headway.training.fabric import pick_device

REFERENCE = "reference."  # prefix of the weights that a policy is compared with
RECIPE, ABOUT, RESULTS, LOCK = "recipe.toml", "about.json", "results.json", "lock"
PREDICTIONS = "predictions.safetensors"
# Settings that may be changed to read another file.
READ_AS = (
    *("data.text", "data.label", "data.columns", "data.encoding", "data.separator", "data.quotes", "data.bad_rows"),
)
ABOUT_SHAPE = {"created": str, "headway": str, "threads": int}
RESULTS_SHAPE = {
    **{"steps": int, "seconds": NUMBER, "ended": str, "weights_of_step": int},
    "test": {str: {str: NUMBER}},
}
COLUMNS = ("targets", "predicted", "confidence")  # the fields of Predictions, in order, without its key


class Run:
    """A run folder: its recipe, results, weights and model."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not os.path.lexists(self.folder / RECIPE):
            what = f"is not a run: it has no {RECIPE}" if self.folder.exists() else "does not exist"
            raise Problem(f"{folder} {what}; 'headway runs' lists all runs")
        self.checkpoints = self.folder / "checkpoints"
        self.notes: list[str] = []  # about the weights in use, for the user

    @classmethod
    def create(cls, recipe: Recipe, folder: str | Path | None, save: Callable[[Path], None]) -> "Run":
        """Make a new folder; ``save`` writes what the task has learned from its data. Nothing is overwritten: if the
        name is taken, a number is added."""
        if Path(recipe.name).name != recipe.name:
            raise BadSetting("name", f"{recipe.name!r} cannot be the name of a folder")
        if folder is None:
            path = Path("runs") / f"{recipe.name}-1"
            others = (path.with_name(f"{recipe.name}-{number}") for number in count(2))
        else:
            path, name = Path(folder), Path(folder).resolve().name
            others = (path.parent / f"{name}-{number}" for number in count(2))
        try:
            with new_folder(path, others, durable=True) as new:
                (new.path / RECIPE).write_text(to_toml(portable(recipe)))
                copy_own_files(recipe, new.path)
                (new.path / ABOUT).write_text(json.dumps(about(recipe), indent=2))
                save(new.path)
        except OSError as error:
            raise Problem(f"cannot make a run folder in {path.parent}: {error}") from error
        return cls(new.path)

    @cached_property
    def recipe(self) -> Recipe:
        return self.read_recipe()

    def read_recipe(self, overrides: Sequence[str] = ()) -> Recipe:
        recipe = recipes.load(self.folder / RECIPE, overrides, resolved=True)
        adopt(recipe)
        return located(self.as_it_was(recipe), self.folder)

    def as_it_was(self, recipe: Recipe) -> Recipe:
        """Where a name means something else since the run was made, the recipe with the name of what it meant."""
        is_old = (self.folder / ABOUT).is_file() and str(self.about.get("headway")).startswith("0.1.")
        if not is_old:
            return recipe
        train = recipe.train
        schedule = "cosine(from_peak=False)" if train.schedule == "cosine" else train.schedule
        stop_on = None if train.patience is None else train.stop_on  # it had no effect on its own
        return replace(recipe, train=replace(train, schedule=schedule, stop_on=stop_on))

    @cached_property
    def task(self) -> Task:
        with self.naming_objects():
            task = TASKS[self.recipe.task](self.recipe)
            task.restore(self.folder)
            return task

    @contextmanager
    def naming_objects(self) -> Iterator[None]:
        """A choice that is unknown here may have been a Python object where the run was trained."""
        try:
            yield
        except BadSetting as bad:
            if "no such choice" not in bad.message:
                raise
            remedy = (
                "if it was a Python object of yours, name its module: --trust my_module; or in Python, register it "
                f"first: headway.register({bad.key!r}, ...)"
            )
            raise Problem(f"{self.folder}: {bad}; {remedy}") from None

    @property
    def about(self) -> dict[str, Any]:
        return read_json(self.folder / ABOUT, ABOUT_SHAPE)

    @property
    def is_done(self) -> bool:
        return (self.folder / RESULTS).exists()

    @property
    def results(self) -> dict[str, Any]:
        """The test metrics, once it is done."""
        path, names = self.folder / RESULTS, TASKS[self.recipe.task].metric_names
        results: dict[str, Any] = read_json(path, RESULTS_SHAPE)
        sets = results["test"].values()
        if missing := {"test set"} if not sets else {name for own in sets for name in names if name not in own}:
            raise Problem(f"{path} is damaged: it has no {min(missing)}")
        return results

    def predictions(self) -> dict[str, Predictions] | None:
        """The prediction for each example of each test set; None if the task does not classify."""
        path = self.folder / PREDICTIONS
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as saved:
                return {
                    name: Predictions(**{column: saved.get_tensor(f"{name}.{column}") for column in COLUMNS}, key=key)
                    for name, key in sorted(saved.metadata().items())  # which come in any order
                }
        except (OSError, SafetensorError, KeyError) as error:
            raise Problem(f"{path} cannot be read: {error}") from error

    def write_predictions(self, sets: Mapping[str, Predictions]) -> None:
        columns = {f"{name}.{column}": getattr(own, column) for name, own in sets.items() for column in COLUMNS}
        try:
            with new_file(self.folder / PREDICTIONS) as path:
                save_file(columns, path, metadata={name: own.key for name, own in sets.items()})
        except SafetensorError as error:
            raise Problem(f"cannot write {self.folder / PREDICTIONS}: {error}") from error

    def without_links(self) -> "Run":
        """A run that is trained writes its files, and removes old ones: none of them may lead to another place."""
        if link := next((path for path in self.folder.rglob("*") if path.is_symlink()), None):
            raise Problem(f"{link} is a link, and training would write through it: put the run's own file in its place")
        return self

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest intact checkpoint, and what is wrong with newer ones."""
        return checkpoint.newest(self.checkpoints)

    def final_checkpoint(self) -> Checkpoint:
        """The checkpoint with the final weights: the best with early stopping, else the last. Sets ``notes``."""
        last, damaged = self.newest()
        self.notes = damaged
        if last is None:
            why = damaged[0] if damaged else "it has no checkpoint yet"
            raise Problem(f"{self.folder} cannot be used: {why}; 'headway resume {self.folder}' trains it")
        best = last.progress["best_step"]
        return last if best in (None, last.step) else checkpoint.read(self.checkpoints, best)

    def model(self) -> nn.Module:
        """A copy of the trained model, on the best available device unless the recipe sets the CPU."""
        final = self.final_checkpoint()
        device = "cpu" if self.recipe.train.device == "cpu" else "auto"
        with self.naming_objects():
            refuse_more_layers(self.recipe.model, len(final.weights), str(self.folder / RECIPE))
            model = self.task.model()
        checkpoint.load_weights(model, final.weights, checkpoint.folder_of(self.checkpoints, final.step))
        return model.to(pick_device(device)).eval()

    @cached_property
    def network(self) -> nn.Module:
        """The trained model, loaded once."""
        return self.model()

    def summary(self) -> dict[str, Any]:
        """The run's line in the list of runs."""
        try:
            return {"run": str(self.folder), **self.status()}
        except (Problem, OSError) as problem:
            return {"run": str(self.folder), "state": "damaged", "problem": str(problem)}

    def status(self) -> dict[str, Any]:
        """What ``summary`` shows; raises a Problem if a file is damaged."""
        results = self.results if self.is_done else None
        steps = checkpoint.steps_in(self.checkpoints)
        names = TASKS[self.recipe.task].metric_names
        return {
            "state": "done" if results else "being trained" if is_held(self.folder / LOCK) else "can be resumed",
            "task": self.recipe.task,
            "seed": self.recipe.train.seed,
            "step": results["steps"] if results else max(steps, default=0),
            "created": self.about["created"],
            **{name: worst(name, results["test"]) if results else None for name in names},
        }

    def lock(self) -> FileLock:
        return FileLock(self.folder / LOCK)

    def take(self, lock: FileLock) -> None:
        """Only one process trains a run. Others hold the lock for a moment to see whether one does."""
        try:
            lock.acquire(timeout=1)
        except Timeout:
            raise Problem(f"{self.folder} is being trained by another process: wait, or stop it") from None
        except OSError as error:
            raise Problem(f"cannot train in {self.folder}: {error}") from None

    def read_as(self, overrides: Sequence[str]) -> None:
        """Read other files with these settings, such as ``data.text=review``; only those in READ_AS may be changed."""
        for override in overrides:
            key = override.partition("=")[0].strip()
            if key not in READ_AS:
                raise BadSetting(key, f"does not change how a file is read; {did_you_mean(key, READ_AS)}")
        self.task.recipe = self.read_recipe(overrides)


def all_runs(folder: Path) -> list[Run]:
    """The runs in a folder and its subfolders, oldest first; a name with a leading dot is a run in the making."""
    recipes = [path for path in folder.rglob(RECIPE) if not path.parent.name.startswith(".")]
    return [Run(path.parent) for path in sorted(recipes, key=lambda path: path.lstat().st_mtime_ns)]


def free_folder(name: str) -> Path:
    """The first of runs/NAME-1, runs/NAME-2, ... that does not exist; the first run creates it."""
    return next(path for number in count(1) if not (path := Path("runs", f"{name}-{number}")).exists())


def about(recipe: Recipe) -> dict[str, Any]:
    return {
        "created": datetime.now().isoformat(timespec="milliseconds"),
        "seed": recipe.train.seed,
        "headway": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def count_parameters(task: Task) -> int:
    """The number of parameters, at no cost: tensors on the meta device have a shape and no data."""
    with torch.device("meta"):
        return size_of(task.model())


def size_of(model: nn.Module) -> int:
    """The number of parameters, without those of a frozen reference, which is a copy of the model itself."""
    weights = model.named_parameters()
    return sum(weight.numel() for name, weight in weights if not name.startswith(REFERENCE))
