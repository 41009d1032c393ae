"""The loop of word vectors: the same steps, checkpoints and numbers as training/loop, by engines of its own (cpu_engine
and gpu_engine).

A step reads a stretch of the text; its loss is the true mean over all that was learned from there.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from headway.config.parts import bind
from headway.config.recipe import TrainSpec
from headway.tasks.word2vec.cpu_engine import FULL, HIERARCHICAL, NEGATIVE, Plan, Text, Threads, key_of
from headway.tasks.word2vec.gpu_engine import BlockEngine
from headway.tasks.word2vec.model import WordVectors
from headway.tasks.word2vec.windows import StretchSampler, Words
from headway.training.checkpoint import Checkpoint, load_weights, weights_of
from headway.training.finite import NotFinite
from headway.training.loop import Step
from headway.training.schedules import SCHEDULES


class Engine(Protocol):
    def learn(self, first: int, last: int, rate: float, key: np.uint64) -> tuple[float, int]:
        """From texts ``first`` to ``last``; gives the sum of the losses, and how many there were."""


def engine_of(model: WordVectors, data: Words, spec: TrainSpec, device: torch.device) -> Engine:
    """On a GPU by products of matrices, which is a way of sharing negatives; without these, on the CPU."""
    shape = model.shape
    kind = {"full": FULL, "negative": NEGATIVE, "hierarchical": HIERARCHICAL}[shape.softmax]
    drawing = data.window, data.negatives, *data.draw
    plan = Plan(shape.cbow, kind, *drawing, shape.unit_starts, shape.units, *shape.ways)
    text = Text(data.tokens, data.starts, data.sizes, data.kept, data.border)
    if device.type == "cuda" and kind == NEGATIVE:
        return BlockEngine(text, plan, *(weight.detach() for weight in model.to(device).parameters()))
    inputs, outputs = (np.asarray(weight.detach()) for weight in model.parameters())  # the same memory
    return Threads(text, plan, inputs, outputs, spec.threads or torch.get_num_threads())


class VectorLoop:
    def __init__(self, model: nn.Module, data: Words, order: StretchSampler, engine: Engine, spec: TrainSpec):
        self.model, self.data, self.sampler, self.engine, self.spec = model, data, order, engine, spec
        self.schedule = bind(SCHEDULES, spec.schedule, "train.schedule", warmup=spec.warmup, steps=spec.steps)

    def steps(self, done: int = 0) -> Iterator[Step]:
        for number in range(done + 1, self.spec.steps + 1):
            yield self.step(number)

    def step(self, number: int) -> Step:
        started = perf_counter()
        epoch, first, last = self.sampler.rows_at(number).tolist()
        rate = self.spec.learning_rate * self.schedule(number - 0.5)  # a step is long: its middle, not its end
        total, count = self.engine.learn(first, last, rate, key_of(self.spec.seed, epoch))
        loss = total / max(count, 1)
        if not np.isfinite(loss):
            raise NotFinite(number, f"step {number}: the loss is {loss}")
        words = int(self.data.sizes[first:last].sum())
        return Step(number, loss, rate, 0.0, words, perf_counter() - started)

    def checkpoint(self, progress: dict[str, Any]) -> Checkpoint:
        return Checkpoint(weights_of(self.model), {}, progress, {})

    def averaged(self) -> AbstractContextManager[None]:
        return nullcontext()

    def load(self, saved: Checkpoint, source: Path) -> None:
        load_weights(self.model, saved.weights, source)
