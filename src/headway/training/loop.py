"""The training loop. It yields after every step; logging, evaluation, saving and the terminal are its consumers.

A step is a function of the weights, the optimizers' moments, the seed and the step number: batch, learning rate and
dropout follow from the number. So a run that is resumed from a checkpoint does exactly what it would have done without
the break.
"""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.parts import bind, part
from headway.config.recipe import TrainSpec
from headway.config.signals import HANDLED
from headway.data.batch import Batch
from headway.objectives.tally import Tally
from headway.training.average import AVERAGES, Average
from headway.training.checkpoint import Checkpoint, load_moments, load_weights, moments_of, weights_of
from headway.training.fabric import compile_blocks
from headway.training.finite import NotFinite, first_bad_gradient, first_bad_weight, first_not_finite
from headway.training.grains import ABSENT, Grains, Tree
from headway.training.graphed_step import GraphedStep
from headway.training.optimizers import OPTIMIZERS, freeze, slow_lower_layers
from headway.training.schedules import Schedule
from headway.training.shares import Ranks, Shares

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Loss = Callable[[nn.Module, Batch], Tally]
Metrics = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Step:
    number: int
    loss: float
    learning_rate: float
    gradient_norm: float  # before clipping
    tokens: int
    seconds: float
    validation: Metrics | None = None  # by dataset, at steps with an evaluation


class Loop:
    def __init__(
        self,
        fabric: "Fabric",
        model: nn.Module,
        loss: Loss,
        batch_at: Callable[[int], Batch],
        spec: TrainSpec,
        static_shapes: bool = True,  # whether all batches have one shape
        ranks: Ranks | None = None,  # the place in the grid; None: on the axis of rows
    ):
        self.fabric, self.model, self.loss, self.batch_at, self.spec = fabric, model, loss, batch_at, spec
        self.schedule = Schedule(spec)
        self.ranks = ranks or Ranks.of_rows(fabric.global_rank, fabric.world_size)
        freeze(model, spec.freeze)
        fabric.to_device(model)
        # Before the optimizers: the weights of a model that is cut are others.
        self.shares = Shares(model, self.ranks) if self.ranks.cuts_model else None
        rates: dict[str, Any] = {"learning_rate": spec.learning_rate, "weight_decay": spec.weight_decay}
        optimizers = part(OPTIMIZERS, spec.optimizer, "train.optimizer", kind=list, model=model, **rates)
        if spec.layer_decay < 1:
            slow_lower_layers(model, optimizers, spec.layer_decay)
        if self.shares is not None:
            self.shares.adapt(optimizers)
        self.weights = list(model.parameters())  # walking through all modules takes as long as using them
        self.grains = None
        self.network: Any = model
        if spec.grains is not None:
            self.grains = Grains(spec.grains, self.weights, fabric.global_rank, fabric.world_size)
        elif self.shares is None:
            wrapped, *_ = fabric.setup(model, *optimizers)
            # With several processes, Fabric's module adds up their gradients. With one, it would only cast outputs.
            self.network = wrapped if fabric.world_size > 1 else model
        self.total = torch.compile(self.total_of) if spec.compile == "loss" else self.total_of
        if spec.compile == "blocks":
            compile_blocks(model, static_shapes)
        can_record = fabric.world_size == spec.accumulate == 1 and fabric.device.type == "cuda" and not self.grains
        self.graphed = GraphedStep(model, self.gradient_of, fabric.device) if spec.cuda_graphs and can_record else None
        rate = bind(AVERAGES, spec.average, "train.average", steps=spec.steps)
        self.average = None if spec.average == "none" else Average(model, rate)
        self.optimizers = optimizers
        # In fp16, losses are scaled up so that small gradients are not lost; other precisions have no scaler.
        self.scaler = getattr(fabric.strategy.precision, "scaler", None)
        for group in self.groups():
            group["peak"] = group["lr"]

    def groups(self) -> list[dict[str, Any]]:
        """The optimizers' parameter groups; not stored, because loading moments replaces them."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def steps(self, done: int = 0, total: Callable[[int], float] | None = None) -> Iterator[Step]:
        """``total`` is the number of steps of the whole run, as known at the beginning of each."""
        for number in range(done + 1, self.spec.steps + 1):
            if not self.model.training:
                self.model.train()
            yield self.step(number, self.spec.steps if total is None else total(number))

    def step(self, number: int, total: float | None = None) -> Step:
        started = perf_counter()
        factor = self.schedule(number, total)
        if not math.isfinite(factor):
            raise NotFinite(number, f"step {number}: the schedule makes the learning rate {factor}")
        for group in self.groups():
            group["lr"] = group["peak"] * factor
        batch = self.batch_at(number)
        graphed = self.graphed is not None and self.graphed.ready(batch)
        # Both at once: one synchronization with the GPU instead of two.
        loss, gradient_norm = torch.stack([self.backward(number, batch, graphed), self.gradient_norm()]).tolist()
        if not math.isfinite(loss) or (not math.isfinite(gradient_norm) and self.scaler is None):
            raise self.not_finite(number, batch, loss)
        self.clip(gradient_norm)
        self.update()
        if self.average is not None:
            self.average.update(number, total)
        rate = self.spec.learning_rate * factor
        return Step(number, loss, rate, gradient_norm, batch.tokens, perf_counter() - started)

    def not_finite(self, number: int, batch: Batch, loss: float) -> NotFinite:
        """Says where it begins: in a weight, in the forward pass, or in the backward pass."""
        where = first_not_finite(self.model, lambda: self.totals(number, batch))
        if not math.isfinite(loss):
            where = where or "the loss itself, the model's outputs are finite"
            return NotFinite(number, f"step {number}: the loss is {loss}; first not finite: {where}")
        where = where or first_bad_gradient(self.model)
        return NotFinite(number, f"step {number}: the gradient is not finite; first not finite: {where}")

    def backward(self, number: int, batch: Batch, graphed: bool = False) -> Tensor:
        """Compute the gradient of the batch's mean loss, and return that loss.

        Each part of each process's rows is divided by the count of the whole batch, so that the gradient does not
        depend on how the rows are split.
        """
        self.seed_dropout(number, self.ranks.rows[0])
        if self.graphed is not None and graphed:
            return self.graphed.play(batch, 1 / batch.count)
        if self.grains is not None:
            return self.backward_by_grains(self.grains, number, batch)
        (rank, processes), parts = self.ranks.rows, self.parts(batch)
        weight = (rank < len(batch)) / batch.count
        if self.shares is not None:
            total = torch.zeros((), device=self.fabric.device)
            scaled = weight * self.shares.scale
            return self.shares.add_up(total + sum(self.gradient_of(rows, scaled) for rows in parts))
        weight *= processes  # because Fabric averages over them
        loss = torch.zeros((), device=self.fabric.device)
        for done, rows in enumerate(parts, start=1):
            more_to_come = processes > 1 and done < len(parts)
            with self.fabric.no_backward_sync(self.network) if more_to_come else nullcontext():
                loss += self.gradient_of(rows, weight)
        return self.fabric.all_reduce(loss, reduce_op="mean") if processes > 1 else loss  # type: ignore[return-value]

    def backward_by_grains(self, grains: Grains, number: int, batch: Batch) -> Tensor:
        tree = Tree()
        for grain in grains.own():
            loss = torch.full((), ABSENT, device=self.fabric.device)
            self.seed_dropout(number, grain)
            rows = grains.rows(batch, grain)
            for each in [] if rows is None else self.in_parts(rows):
                loss = loss + self.gradient_of(each, 1 / batch.count)
            tree.add(grains.leaf(loss))
        return grains.gather(tree)

    def gradient_of(self, rows: Batch, weight: Tensor | float) -> Tensor:
        """Add the gradient of these rows' loss to the weights' gradients, and return that loss."""
        loss = self.loss_sum(rows) * weight
        self.fabric.backward(loss)
        return loss.detach()

    def loss_sum(self, rows: Batch) -> Tensor:
        """The summed loss of these rows, in the run's precision."""
        with self.fabric.autocast():
            return self.total(self.network, rows.to(self.fabric.device))

    def total_of(self, network: nn.Module, rows: Batch) -> Tensor:
        return self.loss(network, rows).total

    def parts(self, batch: Batch) -> list[Batch]:
        """This process's rows in micro-batches; with more processes than rows, some have the same row."""
        rank, processes = self.ranks.rows
        rows = batch.take(slice(rank % len(batch), None, processes)) if processes > 1 else batch
        if self.ranks["shard"].size > 1:  # all processes put the weights together equally often
            return rows.split(min(self.spec.accumulate, max(len(batch) // processes, 1)))
        return self.in_parts(rows)

    def in_parts(self, rows: Batch) -> list[Batch]:
        if self.spec.accumulate > 1:
            return rows.split(self.spec.accumulate)
        return rows.without_waste() if self.fabric.device.type == "cpu" else [rows]

    def totals(self, number: int, batch: Batch) -> list[Tensor]:
        """The losses of this process, with the dropout that they had."""
        shares = [(self.ranks.rows[0], self.parts(batch))]
        if self.grains is not None:
            grains = [(grain, self.grains.rows(batch, grain)) for grain in self.grains.own()]
            shares = [(grain, self.in_parts(rows)) for grain, rows in grains if rows is not None]
        return [loss for own, rows in shares for loss in self.losses(number, own, rows)]

    def losses(self, number: int, part: int, rows: list[Batch]) -> list[Tensor]:
        self.seed_dropout(number, part)
        return [self.loss_sum(each) for each in rows]

    def gradient_norm(self) -> Tensor:
        if self.scaler is not None:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
        return nn.utils.get_total_norm(self.gradients()) if self.shares is None else self.shares.norm()

    def gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self.weights if weight.grad is not None]

    def clip(self, norm: float) -> None:
        if self.spec.grad_clip is not None and math.isfinite(norm):
            if self.shares is not None:
                self.shares.clip(norm, self.spec.grad_clip)
            else:
                nn.utils.clip_grads_with_norm_(self.weights, self.spec.grad_clip, torch.tensor(norm))

    def update(self) -> None:
        for optimizer in self.optimizers:
            if self.scaler is None:
                optimizer.step()
            else:
                self.scaler.step(optimizer)  # skips the update if the scaled gradient is not finite
            if self.graphed is None:
                optimizer.zero_grad()
        if self.graphed is not None:  # CUDA graphs need the gradients to stay at their addresses
            torch._foreach_zero_(self.gradients())
        if self.scaler is not None:
            self.scaler.update()

    def seed_dropout(self, number: int, part: int) -> None:
        """``part`` is the process, or the grain: no two draw the same."""
        seed = int(np.random.SeedSequence([self.spec.seed, number, part]).generate_state(1)[0])
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def checkpoint(self, progress: dict[str, Any]) -> Checkpoint:
        """Everything that the next step depends on; weights that are not finite are never saved."""
        if bad := first_bad_weight(self.model):
            raise NotFinite(progress["step"], f"step {progress['step']}: after the update {bad} is not finite")
        moments = self.whole(moments_of(self.model, self.optimizers))
        scaler = self.fabric.strategy.precision.state_dict()
        last = self.whole(weights_of(self.model))
        if self.average is None:
            return Checkpoint(last, moments, progress, scaler)
        last = {name: weight.clone() for name, weight in last.items()}
        with self.average.applied():
            mean = {name: weight.clone() for name, weight in self.whole(weights_of(self.model)).items()}
        return Checkpoint(mean, moments, progress, scaler, last=last)

    def whole(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return tensors if self.shares is None else self.shares.whole(tensors)

    def local(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return tensors if self.shares is None else self.shares.local(tensors)

    def averaged(self) -> AbstractContextManager[None]:
        """The model has the weights to evaluate and save inside the block."""
        return nullcontext() if self.average is None else self.average.applied()

    def load(self, saved: Checkpoint, source: Path) -> None:
        if self.average is not None:
            load_weights(self.model, self.local(saved.weights), source)
            self.average.restart()
        load_weights(self.model, self.local(saved.last or saved.weights), source)
        load_moments(self.model, self.optimizers, self.local(saved.moments), source)
        self.fabric.strategy.precision.load_state_dict(saved.scaler)


class Interrupt:
    """A context manager that notes Ctrl-C and SIGTERM, to be handled between steps: ``received`` is the signal, if one
    arrived. A second signal has its usual effect, and a process that ignores signals keeps ignoring them."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in HANDLED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self.handlers[number] = signal.signal(number, self.receive)
        return self

    def receive(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self.restore()

    def restore(self) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.handlers.clear()

    def __exit__(self, *error: object) -> None:
        self.restore()


@contextmanager
def unbroken() -> Iterator[None]:
    """Ctrl-C and SIGTERM come after the block. An exception in the midst of a queue, where a thread was told of an item
    and this was not noted yet, leaves the thread waiting."""
    with Interrupt() as interrupt:
        try:
            yield
        finally:
            interrupt.restore()
            if interrupt.received is not None:
                signal.raise_signal(interrupt.received)
