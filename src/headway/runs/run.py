"""A run: a recipe, trained in a folder of its own.

runs/parity-1/
    recipe.toml      the recipe with every setting written out
    about.json       versions of Python, torch and headway, the seed, the number of threads
    metrics.jsonl    a record a line; tensorboard/ has the same
    checkpoints/     see headway/training/checkpoint.py
    results.json     the test metrics, once it is done; predictions.safetensors: the prediction for each test example
    lock             held by the process that trains
"""

import json
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from headway.config.recipe import Recipe
from headway.config.settings import to_toml
from headway.data.files import read_json
from headway.metrics import worst
from headway.metrics.classification import Predictions
from headway.tasks import TASKS, Prediction, Task
from headway.training import checkpoint
from headway.training.checkpoint import Checkpoint
from headway.training.fabric import pick_device

RECIPE, ABOUT, RESULTS, LOCK = "recipe.toml", "about.json", "results.json", "lock"
PREDICTIONS = "predictions.safetensors"
READ_AS = ("data.text", "data.label", "data.columns", "data.encoding", "data.separator", "data.bad_rows")
COLUMNS = ("targets", "predicted", "confidence")


class Run:
    """A run folder, and what can be asked of it."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not (self.folder / RECIPE).is_file():
            what = f"is not a run: it has no {RECIPE}" if self.folder.exists() else "does not exist"
            raise Problem(f"{folder} {what}; 'headway runs' lists the runs there are")
        self.checkpoints = self.folder / "checkpoints"
        self.notes: list[str] = []  # what a user should know about the weights that are used

    @classmethod
    def create(cls, recipe: Recipe, folder: str | Path | None, save: Callable[[Path], None]) -> "Run":
        """A new folder, complete from its first moment: ``save`` writes what the task has learned from its data.
        Nothing is overwritten: a name that is taken gets a number."""
        if Path(recipe.name).name != recipe.name:
            raise BadSetting("name", f"{recipe.name!r} cannot be the name of a folder")
        parent = Path("runs") if folder is None else Path(folder).parent
        beside = None
        try:
            parent.mkdir(parents=True, exist_ok=True)
            beside = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
            beside.chmod(0o755)
            (beside / RECIPE).write_text(to_toml(recipe))
            (beside / ABOUT).write_text(json.dumps(about(recipe), indent=2))
            save(beside)
            return cls(rename_to_first_free(beside, candidates(parent, recipe, folder)))
        except OSError as error:
            if beside is not None:
                shutil.rmtree(beside, ignore_errors=True)
            raise Problem(f"cannot make a run folder in {parent}: {error}") from error
    @cached_property
    def recipe(self) -> Recipe:
        return recipes.load(self.folder / RECIPE, resolved=True)

    @cached_property
    def task(self) -> Task:
        task = TASKS[self.recipe.task](self.recipe)
        task.restore(self.folder)
        return task

    @property
    def about(self) -> dict[str, Any]:
        return read_json(self.folder / ABOUT)

    @property
    def is_done(self) -> bool:
        return (self.folder / RESULTS).exists()

    @property
    def results(self) -> dict[str, Any]:
        """The test metrics, once it is done."""
        return read_json(self.folder / RESULTS)

    def predictions(self) -> dict[str, Predictions] | None:
        """The prediction for each example of each test set; None if the task has no classes."""
        path = self.folder / PREDICTIONS
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as saved:
                columns = {
                    name: [saved.get_tensor(f"{name}.{column}") for column in COLUMNS] for name in saved.metadata()
                }
                return {
                    name: Predictions(targets, predicted, confidence, saved.metadata()[name])
                    for name, (targets, predicted, confidence) in columns.items()
                }
        except (OSError, SafetensorError, KeyError) as error:
            raise Problem(f"{path} cannot be read: {error}") from error

    def write_predictions(self, sets: Mapping[str, Predictions]) -> None:
        columns = {f"{name}.{column}": getattr(each, column) for name, each in sets.items() for column in COLUMNS}
        save_file(columns, self.folder / PREDICTIONS, metadata={name: each.key for name, each in sets.items()})

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is intact, and what is wrong with newer ones."""
        return checkpoint.newest(self.checkpoints)

    def result(self) -> Checkpoint:
        """The weights that the run came to: with early stopping the best, else the last."""
        last, damaged = self.newest()
        self.notes = damaged
        if last is None:
            why = damaged[0] if damaged else "it has no checkpoint yet"
            raise Problem(f"{self.folder} cannot be used: {why}; 'headway resume {self.folder}' trains it")
        best = last.progress["best_step"]
        return last if best in (None, last.step) else checkpoint.read(self.checkpoints, best)

    def model(self) -> nn.Module:
        """The trained model, on the best device there is (unless the recipe wants the CPU)."""
        result, device = self.result(), "cpu" if self.recipe.train.device == "cpu" else "auto"
        model = self.task.model()
        checkpoint.load_weights(model, result.weights, checkpoint.folder_of(self.checkpoints, result.step))
        return model.to(pick_device(device)).eval()

    def evaluate(self, data: Path | None = None) -> dict[str, dict[str, float]]:
        """All metrics of all test sets, or of a file of other data."""
        from headway.runs.model import Model

        return {name: each.metrics for name, each in Model(self).evaluate(data).items()}

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        from headway.runs.model import Model

        return Model(self).predict(texts)

    def summary(self) -> dict[str, Any]:
        """A line of the list of runs."""
        try:
            return {"run": str(self.folder), **self.state()}
        except Problem:
            return {"run": str(self.folder), "state": "damaged"}

    def state(self) -> dict[str, Any]:
        results = self.results if self.is_done else None
        steps = checkpoint.steps_in(self.checkpoints)
        names = TASKS[self.recipe.task].metric_names
        return {
            "state": "done" if results else "being trained" if is_locked(self.folder) else "can be resumed",
            "task": self.recipe.task,
            "seed": self.recipe.train.seed,
            "step": results["steps"] if results else max(steps, default=0),
            "created": self.about["created"],
            **{name: worst(name, results["test"]) if results else None for name in names},
        }

    def read_as(self, overrides: Sequence[str]) -> None:
        """Settings with which other files are read, such as ``data.text=review``."""
        for word in overrides:
            key = word.partition("=")[0].strip()
            if key not in READ_AS:
                raise BadSetting(key, f"is not about how a file is read; {did_you_mean(key, READ_AS)}")
        self.task.recipe = recipes.load(self.folder / RECIPE, overrides, resolved=True)


def candidates(parent: Path, recipe: Recipe, folder: str | Path | None) -> Iterator[Path]:
    """Names for a new run folder, in the order in which they are tried."""
    if folder is None:
        yield from (parent / f"{recipe.name}-{number}" for number in count(1))
    else:
        name = Path(folder).resolve().name
        yield Path(folder)
        yield from (Path(folder).parent / f"{name}-{number}" for number in count(2))


def rename_to_first_free(path: Path, names: Iterator[Path]) -> Path:
    for name in names:
        try:
            return path.rename(name)
        except OSError:
            if not name.exists():
                raise
    raise AssertionError("there is always another name")


def all_runs(folder: Path) -> list[Run]:
    """The runs in a folder and the folders below it, oldest first; a name with a dot in front is no run yet."""
    runs = [Run(path.parent) for path in folder.rglob(RECIPE) if not path.parent.name.startswith(".")]
    return sorted(runs, key=lambda run: (run.folder / RECIPE).stat().st_mtime_ns)


def is_locked(folder: Path) -> bool:
    """Whether a process is training there now."""
    if not (folder / LOCK).exists():
        return False
    try:
        with FileLock(folder / LOCK, timeout=0):
            return False
    except Timeout:
        return True


def about(recipe: Recipe) -> dict[str, Any]:
    return {
        "created": datetime.now().isoformat(timespec="milliseconds"),
        "seed": recipe.train.seed,
        "headway": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def parameters_of(task: Task) -> int:
    """How many there are, at no cost: tensors on the meta device have a shape and no numbers."""
    with torch.device("meta"):
        return sum(weight.numel() for weight in task.model().parameters())
