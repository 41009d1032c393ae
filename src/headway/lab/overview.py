"""A recipe or a run at a glance: its settings, its layers, the cost of a training step, its learning rate."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headway import recipes
from headway.config.errors import Problem
from headway.config.parts import bind
from headway.config.settings import rows
from headway.data.batch import Batch
from headway.data.files import Progress, silent
from headway.data.samplers import with_steps
from headway.lab.plot import Plot, plot_curves
from headway.metrics.table import Table
from headway.recipes.size import refuse_too_large
from headway.runs.run import Run, size_of
from headway.tasks import TASKS, Task
from headway.training.schedules import SCHEDULES

MOST_POINTS = 60  # of a learning rate curve
MOST_TRIED = 1_000_000  # steps, for the peak


@dataclass(frozen=True)
class Setting:
    key: str
    value: Any
    about: str
    choices: list[str]


def settings(name: str | Path) -> list[Setting]:
    """All settings of a recipe."""
    recipe = recipes.load(name)
    tables = {**recipes.TABLES, **TASKS[recipe.task].tables}
    return [
        Setting(row.key, row.value, row.about, list(row.choices or tables.get(row.key) or ())) for row in rows(recipe)
    ]


def is_run(name: str) -> bool:
    """Whether a name that may be a recipe or a run is a run."""
    return name not in recipes.names() and Path(name).is_dir()


@dataclass(frozen=True)
class Layer:
    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int


@dataclass(frozen=True)
class Summary:
    layers: list[Layer]
    parameters: int
    batch_size: int
    flops: int  # of a training step

    def table(self) -> Table:
        rows = [(each.name, each.kind, " x ".join(map(str, each.output)), each.parameters) for each in self.layers]
        return Table(["layer", "kind", "output", "parameters"], rows)

    def cost(self) -> str:
        step = f"a training step of {self.batch_size} examples is {self.flops / 1e6:,.1f} MFLOP"
        return f"{self.parameters:,} parameters; {step}"

    def _repr_html_(self) -> str:
        return f"{self.table()._repr_html_()}<p>{self.cost()}</p>"


def summarise(name: str, overrides: Sequence[str] = ()) -> Summary:
    """The layers of a run's or a recipe's model, and the cost of a step with its first batch."""
    if is_run(name):
        if overrides:
            raise Problem(f"{name} is a run, and its settings are fixed: leave out {' '.join(overrides)}")
        task = Run(name).task
    else:
        task = prepared(recipes.task(name, overrides))
    refuse_too_large(task, training=False)
    train = task.splits().train
    model, batch = task.model(), train.batch(train.sampler(task.recipe.train).rows_at(1))
    return Summary(layers(task, model, batch), size_of(model), len(batch), step_flops(task, model, batch))


def prepared(task: Task, progress: Progress = silent) -> Task:
    """A recipe's task with its data, or what it needs first."""
    recipes.refuse_recipe_as_start(task.recipe)
    task.prepare(progress)
    return task


def layers(task: Task, model: nn.Module, batch: Batch) -> list[Layer]:
    """Every module with parameters of its own, in the order of the forward pass."""
    passed: list[Layer] = []
    hooks = [
        module.register_forward_hook(partial(record, passed, name))
        for name, module in model.named_modules()
        if any(True for _ in module.parameters(recurse=False))
    ]
    task.loss(model, batch)
    for hook in hooks:
        hook.remove()
    return passed


def record(passed: list[Layer], name: str, module: nn.Module, inputs: Any, output: Tensor | tuple[Tensor, Any]) -> None:
    if isinstance(output, tuple):  # torch's recurrent networks also return their last state
        output = output[0]
    own = sum(weight.numel() for weight in module.parameters(recurse=False))
    passed.append(Layer(name, type(module).__name__, tuple(output.shape), own))


def step_flops(task: Task, model: nn.Module, batch: Batch) -> int:
    """Floating-point operations of a forward and a backward pass; a multiply-add counts as two."""
    # The counter sees matrix products; on a CPU, fused attention and recurrent kernels hide them.
    unfused = torch.backends.mkldnn.flags(enabled=False)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        warnings.simplefilter("ignore")  # torch warns that there is no Intel GPU
        with unfused:
            task.loss(model, batch).mean.backward()
    model.zero_grad()
    return counter.get_total_flops()


@dataclass(frozen=True)
class LearningRates:
    schedule: str
    warmup: int
    total_steps: int
    peak: float
    steps: list[int]  # evenly spaced, with the learning rate at each
    rates: list[float]

    def plot(self) -> Plot:
        curve = [list(zip(self.steps, self.rates, strict=True))]
        return plot_curves({self.schedule: curve}, "step", "learning rate")

    def _repr_png_(self) -> bytes:
        return self.plot()._repr_png_()


def learning_rates(name: str, overrides: Sequence[str] = (), progress: Progress = silent) -> LearningRates:
    """The learning rate of a recipe over its steps."""
    task = recipes.task(name, overrides)
    spec = task.recipe.train
    if spec.epochs is not None:  # the number of steps depends on the data
        prepared(task, progress)
        spec = with_steps(spec, task.splits(progress).train.sampler(spec), progress)
    factor = bind(SCHEDULES, spec.schedule, "train.schedule", warmup=spec.warmup, steps=spec.steps)
    points = min(MOST_POINTS, spec.steps + 1)
    steps = [round(index * spec.steps / (points - 1)) for index in range(points)]
    tried = range(0, spec.steps + 1, -(-spec.steps // MOST_TRIED))
    peak = spec.learning_rate * max(factor(step) for step in (*tried, min(spec.warmup, spec.steps)))
    rates = [spec.learning_rate * factor(step) for step in steps]
    return LearningRates(spec.schedule, spec.warmup, spec.steps, peak, steps, rates)
