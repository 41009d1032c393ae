"""Lightning: a headway task as a LightningModule, with its data module, for those who live in Lightning's Trainer.

    from lightning.pytorch import Trainer
    from headway.interop.lightning import TaskData, TaskModule

    module = TaskModule.of("parity", ["train.steps=600"])
    Trainer(max_steps=600).fit(module, TaskData(module))
    run = TaskModule.load_from_checkpoint("last.ckpt").to_run("runs/parity-by-lightning")

The optimizers, their schedule, the clipping and the order of the batches are those of the recipe; the Trainer has the
devices, the precision, the loggers and the callbacks. A checkpoint of Lightning's is read by Lightning alone; a run has
no pickle.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from headway import recipes
from headway.config.errors import Problem
from headway.config.imports import library
from headway.config.parts import bind, part
from headway.config.recipe import Recipe
from headway.config.settings import to_toml
from headway.data.memory import portable
from headway.objectives.tally import Tally
from headway.runs.run import ABOUT, RECIPE, RESULTS, Run
from headway.runs.warm_start import warm_start
from headway.tasks import TASKS, Task
from headway.tasks.abilities import HasState, TrainsItself, UsesRuns, can, need
from headway.training import checkpoint
from headway.training.checkpoint import Checkpoint, Progress, weights_of
from headway.training.optimizers import OPTIMIZERS, freeze, slow_lower_layers
from headway.training.schedules import SCHEDULES

pytorch: Any = library("lightning.pytorch", "lightning")
STEP = "headway_step"  # in a checkpoint of Lightning's


class TaskModule(pytorch.LightningModule):
    """Made by ``of`` or ``of_run``; Lightning makes it from a checkpoint, by ``load_from_checkpoint``."""

    def __init__(self, recipe: str, files: Mapping[str, str]):
        """``recipe`` is TOML, ``files`` are those that the task keeps in a run: tokenizer, labels."""
        super().__init__()
        self.save_hyperparameters({"recipe": recipe, "files": dict(files)})
        with TemporaryDirectory() as made:
            folder = Path(made)
            (folder / RECIPE).write_text(recipe, encoding="utf-8")
            for name, content in files.items():
                (folder / Path(name).name).write_text(content, encoding="utf-8")
            self.recipe: Recipe = recipes.load(folder / RECIPE, resolved=True)
            self.task: Task = TASKS[self.recipe.task](self.recipe)
            if can(self.task, TrainsItself):
                raise Problem(f"{self.recipe.task} has a training loop of its own, which Lightning's cannot replace")
            self.task.restore(folder)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.train.seed)
            self.network: nn.Module = self.task.model()
        if can(self.task, UsesRuns):
            need(self.task, UsesRuns).connect(Run)
        if can(self.task, HasState):
            need(self.task, HasState).begin(self.network)
        freeze(self.network, self.recipe.train.freeze)
        self.schedule = bind(
            SCHEDULES, self.spec.schedule, "train.schedule", warmup=self.spec.warmup, steps=self.spec.steps
        )
        self.totals: dict[str, dict[str, Tally]] = {}
        self.steps_done = 0

    @classmethod
    def of(cls, recipe: str | Path, settings: Sequence[str] = ()) -> "TaskModule":
        """A recipe, its data read and its model new, or warm from ``start``."""
        loaded = recipes.load(recipe, list(settings))
        task = TASKS[loaded.task](loaded)
        task.prepare()
        with TemporaryDirectory() as made:
            task.save(Path(made))
            module = cls(to_toml(portable(loaded)), texts_in(Path(made)))
        module.task = task  # whose data are read already
        if loaded.start is not None:
            warm_start(module.network, task, loaded.start)
        return module

    @classmethod
    def of_run(cls, run: Run | str | Path) -> "TaskModule":
        """The trained model of a run, to train on."""
        run = run if isinstance(run, Run) else Run(run)
        files = {name: text for name, text in texts_in(run.folder).items() if name not in (ABOUT, RESULTS)}
        module = cls((run.folder / RECIPE).read_text(encoding="utf-8"), files)
        module.network.load_state_dict(run.model().cpu().state_dict())
        return module

    def to_run(self, out: str | Path | None = None) -> Run:
        """A run folder with these weights, like any other: it predicts, is evaluated, exported, started from."""
        step = int(self._trainer.global_step) if self._trainer is not None else self.steps_done

        def save(folder: Path) -> None:
            for name, content in self.hparams["files"].items():
                (folder / Path(name).name).write_text(content, encoding="utf-8")
            weights = {name: tensor.cpu().contiguous() for name, tensor in weights_of(self.network).items()}
            checkpoint.write(folder / "checkpoints", Checkpoint(weights, {}, asdict(Progress(step=step)), {}))

        return Run.create(self.recipe, out, save)

    @property
    def spec(self) -> Any:
        return self.recipe.train

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.network(*inputs, **named)

    # --- training

    def training_step(self, batch: Any, index: int) -> Tensor:
        loss = self.task.loss(self.network, batch).mean
        self.log("train/loss", loss.detach(), prog_bar=True, batch_size=len(batch))
        return loss

    def configure_optimizers(self) -> Any:
        rates: dict[str, Any] = {"learning_rate": self.spec.learning_rate, "weight_decay": self.spec.weight_decay}
        made = part(OPTIMIZERS, self.spec.optimizer, "train.optimizer", kind=list, model=self.network, **rates)
        if self.spec.layer_decay < 1:
            slow_lower_layers(self.network, made, self.spec.layer_decay)
        whole = made[0] if len(made) == 1 else Together(made)
        plan = torch.optim.lr_scheduler.LambdaLR(whole, lambda steps: self.schedule(steps + 1))
        return [whole], [{"scheduler": plan, "interval": "step"}]

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """The recipe's, unless the Trainer has its own."""
        bound = self.spec.grad_clip if gradient_clip_val is None else gradient_clip_val
        self.clip_gradients(optimizer, bound, gradient_clip_algorithm or "norm")

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch.to(device)

    # --- evaluation: sums and counts are added up over batches, and divided once

    def validation_step(self, batch: Any, index: int, dataloader_idx: int = 0) -> None:
        self.add_up(list(self.task.splits().validation)[dataloader_idx], batch)

    def test_step(self, batch: Any, index: int, dataloader_idx: int = 0) -> None:
        self.add_up(list(self.task.splits().test)[dataloader_idx], batch)

    def add_up(self, name: str, batch: Any) -> None:
        totals = self.totals.setdefault(name, {})
        for metric, tally in self.task.metrics(self.network, batch).items():
            totals[metric] = totals[metric] + tally if metric in totals else tally

    def on_validation_epoch_end(self) -> None:
        self.log_totals("validation")

    def on_test_epoch_end(self) -> None:
        self.log_totals("test")

    def log_totals(self, use: str) -> None:
        """``validation/accuracy``; of several sets ``validation/NAME/accuracy``."""
        for name, totals in self.totals.items():
            means = {metric: float(tally.mean) for metric, tally in totals.items()}
            prefix = use if len(self.totals) == 1 else f"{use}/{name}"
            means |= self.task.derived(means)
            self.log_dict({f"{prefix}/{metric}": mean for metric, mean in means.items()}, sync_dist=True)
        self.totals = {}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[STEP] = int(self.trainer.global_step)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.steps_done = int(checkpoint.get(STEP, 0))


class Together(torch.optim.Optimizer):
    """Several optimizers that share the weights out among them, as Lightning wants one. Their groups are its own."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]):
        self.optimizers = optimizers
        super().__init__([group for each in optimizers for group in each.param_groups], {})

    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for each in self.optimizers:
            each.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [each.state_dict() for each in self.optimizers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for each, own in zip(self.optimizers, state_dict["parts"], strict=True):
            each.load_state_dict(own)
        self.param_groups = [group for each in self.optimizers for group in each.param_groups]


class Batches(IterableDataset[Any]):
    """The batches of the recipe's steps, in its order; each process has its share of a batch's rows."""

    def __init__(self, module: TaskModule):
        super().__init__()
        self.module = module

    def __len__(self) -> int:
        return int(self.module.spec.steps)

    def __iter__(self) -> Iterator[Any]:
        data, spec = self.module.task.splits().train, self.module.spec
        sampler, trainer = data.sampler(spec), self.module._trainer
        done = 0 if trainer is None else int(trainer.global_step)
        rank, processes = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        for step in range(done + 1, spec.steps + 1):
            batch = data.batch(sampler.rows_at(step))
            yield batch.take(slice(rank % len(batch), None, processes)) if processes > 1 else batch


class TaskData(pytorch.LightningDataModule):
    """The data of a module's task: the batches of its steps, and its validation and test sets."""

    def __init__(self, module: TaskModule):
        super().__init__()
        self.module = module

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(Batches(self.module), batch_size=None)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        return loaders(self.module.task.splits().validation)

    def test_dataloader(self) -> list[DataLoader[Any]]:
        return loaders(self.module.task.splits().test)


class Held(IterableDataset[Any]):
    """A set to evaluate on."""

    def __init__(self, data: Any):
        super().__init__()
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        return (batch for _, batch in self.data.batches())


def loaders(sets: Mapping[str, Any]) -> list[DataLoader[Any]]:
    return [DataLoader(Held(data), batch_size=None) for data in sets.values()]


def texts_in(folder: Path) -> dict[str, str]:
    """What a task has written there: JSON."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
