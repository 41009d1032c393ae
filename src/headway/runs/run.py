"""A run: a recipe, trained in a folder of its own.

runs/parity-1/
    recipe.toml      the recipe with every setting written out
    about.json       versions of Python, torch and headway, the seed, the number of threads
    metrics.jsonl    a record a line; tensorboard/ has the same
    checkpoints/     see headway/training/checkpoint.py
    results.json     what it came to, once it is done; predictions.safetensors: what it said of each test example
    lock             held by the process that trains
"""

import json
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import nn

from headway import __version__, recipes
from headway.data.files import read_json
from headway.data.sets import Data
from headway.config.errors import BadSetting, NoReward, Problem, did_you_mean
from headway.generation import Sampling
from headway.metrics.classification import Predictions
from headway.metrics.judge import worst
from headway.objectives.tally import Tally
from headway.config.recipe import Recipe
from headway.config.settings import to_toml
from headway.tasks import TASKS, Answer, Task
from headway.tasks.labelling import Classification
from headway.training import checkpoint
from headway.training.checkpoint import Checkpoint
from headway.training.fabric import pick_device
from headway.training.loop import Metrics

RECIPE, ABOUT, RESULTS, LOCK = "recipe.toml", "about.json", "results.json", "lock"
PREDICTIONS = "predictions.safetensors"
READ_AS = ("data.text", "data.label", "data.columns", "data.encoding", "data.separator", "data.bad_rows")
PARTS = ("targets", "predicted", "confidence")


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
    def create(cls, recipe: Recipe, folder: str | Path | None = None, task: Task | None = None) -> "Run":
        """A new folder, whole from its first moment. Nothing is overwritten: a name that is taken gets a number."""
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
            if task is not None:
                task.save(beside)
            return cls(rename_to_first_free(beside, places(parent, recipe, folder)))
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
        """What the run came to, once it is done."""
        return read_json(self.folder / RESULTS)

    def predictions(self) -> dict[str, Predictions] | None:
        """What the model said of each example of each test set; None if it does not tell classes apart."""
        path = self.folder / PREDICTIONS
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as saved:
                columns = {name: [saved.get_tensor(f"{name}.{part}") for part in PARTS] for name in saved.metadata()}
                return {
                    name: Predictions(targets, predicted, confidence, saved.metadata()[name])
                    for name, (targets, predicted, confidence) in columns.items()
                }
        except (OSError, SafetensorError, KeyError) as error:
            raise Problem(f"{path} cannot be read: {error}") from error

    def write_predictions(self, sets: Mapping[str, Predictions]) -> None:
        columns = {f"{name}.{part}": getattr(found, part) for name, found in sets.items() for part in PARTS}
        save_file(columns, self.folder / PREDICTIONS, metadata={name: found.key for name, found in sets.items()})

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, and what is wrong with newer ones."""
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
        """The trained model, ready to answer, on the best device there is (unless the recipe wants the CPU)."""
        result, device = self.result(), "cpu" if self.recipe.train.device == "cpu" else "auto"
        model = self.task.model()
        checkpoint.load_weights(model, result.weights, checkpoint.folder_of(self.checkpoints, result.step))
        return model.to(pick_device(device)).eval()

    def summary(self) -> dict[str, Any]:
        """A line of the list of runs."""
        try:
            return {"run": str(self.folder), **self.state()}
        except Problem:
            return {"run": str(self.folder), "state": "damaged"}

    def state(self) -> dict[str, Any]:
        results = self.results if self.is_done else None
        steps = checkpoint.steps_in(self.checkpoints)
        known = TASKS[self.recipe.task].metric_names
        scores = {name: worst(name, results["test"]) for name in known} if results else {}
        return {
            "state": "done" if results else "being trained" if is_locked(self.folder) else "can be resumed",
            "task": self.recipe.task,
            "seed": self.recipe.train.seed,
            "step": results["steps"] if results else max(steps, default=0),
            "created": self.about["created"],
            **{name: scores.get(name) for name in known},
        }

    def read_as(self, words: Sequence[str]) -> None:
        """Settings with which other files are read, such as ``data.text=review``."""
        for word in words:
            key = word.partition("=")[0].strip()
            if key not in READ_AS:
                raise BadSetting(key, f"is not about how a file is read; {did_you_mean(key, READ_AS)}")
        self.task.recipe = recipes.load(self.folder / RECIPE, words, resolved=True)

    def evaluate(self) -> Metrics:
        """All metrics of all test sets."""
        model = self.model()
        return {name: measure_whole(self.task, model, data) for name, data in self.task.splits().test.items()}

    def predict(self, texts: Sequence[str]) -> list[Answer]:
        return Model(self).predict(texts)


class Model:
    """A trained run in memory, to be asked many times: ``headway.load("runs/parity-1").predict(["0110"])``."""

    def __init__(self, run: Run):
        self.run, self.task, self.network = run, run.task, run.model()

    def predict(self, texts: Sequence[str]) -> list[Answer]:
        """An answer for each text."""
        if isinstance(texts, str):
            raise Problem("predict takes a list of texts: put the one text into brackets")
        return self.task.answer(self.network, texts)

    def generate(
        self, prompts: Sequence[str], limit: int = 200, seed: int = 0, stops: Sequence[str] = (), **sampling: Any
    ) -> list[str]:
        """What comes after each prompt: ``model.generate(["def "], temperature=0.8, top_k=50)``."""
        if isinstance(prompts, str):
            raise Problem("generate takes a list of prompts: put the one prompt into brackets")
        seeds = range(seed, seed + len(prompts))
        return self.task.generator(self.network).write(prompts, limit, Sampling(**sampling), seeds, stops)

    def stream(self, texts: Iterable[str], at_once: int = 1024) -> Iterator[Answer]:
        """The same for any number of texts, as they come; an empty one has no label."""
        waiting = iter(texts)
        while chunk := list(islice(waiting, at_once)):
            answers = iter(self.predict([text for text in chunk if text.strip()]))
            yield from (next(answers) if text.strip() else Answer(text, None, None, {}) for text in chunk)


def load(folder: str | Path) -> Model:
    """The model that a run came to."""
    return Model(Run(folder))


def places(parent: Path, recipe: Recipe, folder: str | Path | None) -> Iterator[Path]:
    if folder is None:
        yield from (parent / f"{recipe.name}-{number}" for number in count(1))
    else:
        name = Path(folder).resolve().name
        yield Path(folder)
        yield from (Path(folder).parent / f"{name}-{number}" for number in count(2))


def rename_to_first_free(path: Path, places: Iterator[Path]) -> Path:
    for place in places:
        try:
            return path.rename(place)
        except OSError:
            if not place.exists():
                raise
    raise AssertionError("there is always another place")


def all_runs(folder: Path) -> list[Run]:
    """The runs in a folder and the folders below it, oldest first; a name with a dot in front is no run yet."""
    found = [Run(path.parent) for path in folder.rglob(RECIPE) if not path.parent.name.startswith(".")]
    return sorted(found, key=lambda run: (run.folder / RECIPE).stat().st_mtime_ns)


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


@torch.inference_mode()
def refuse_too_long(task: Task, model: nn.Module, sets: Mapping[str, Data]) -> None:
    """Run the longest sequence of each set through the model: what does not fit should be known before training."""
    device = next(model.parameters()).device
    for name, data in sets.items():
        try:
            task.metrics(model, data.longest().to(device))
        except NoReward:
            raise
        except Problem as problem:
            raise Problem(f"the data of {name} do not fit the model: {problem}") from None


def measure_whole(task: Task, model: nn.Module, data: Any) -> dict[str, float]:
    """Each metric, and the scores of what the model writes by itself."""
    model.eval()
    if isinstance(task, Classification):
        return task.tested(model, data)[0]
    return measure(task, model, data) | task.generation_metrics(model, data)


@torch.inference_mode()
def measure(task: Task, model: nn.Module, data: Data) -> dict[str, float]:
    """Each metric over a whole set: sums and counts are added, and divided once."""
    device = next(model.parameters()).device
    totals: dict[str, Tally] = {}
    training = model.training
    model.eval()
    for _, batch in data.batches():
        for name, tally in task.metrics(model, batch.to(device)).items():
            totals[name] = totals[name] + tally.detach_cpu() if name in totals else tally.detach_cpu()
    model.train(training)
    means = {name: tally.mean.item() for name, tally in totals.items()}
    return means | task.derived(means) | {"examples": len(data)}
