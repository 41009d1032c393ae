"""The loop of word vectors: the same steps, checkpoints and numbers as train/loop, by an engine of its own.

A step reads a stretch of the text; its loss is the true mean over all that was learned from there.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.words import Stretches, Words
from headway.parts import bind
from headway.recipe import TrainSpec
from headway.train.checkpoint import Checkpoint, load_weights, weights_of
from headway.train.finite import NotFinite
from headway.train.loop import Step
from headway.train.schedule import SCHEDULES
from headway.train.words import Plan, Text, key_of, learn

SHARES = 4  # of a stretch, for each thread


class VectorLoop:
    def __init__(self, model: nn.Module, data: Words, order: Stretches, plan: Plan, spec: TrainSpec):
        self.model, self.data, self.order, self.plan, self.spec = model, data, order, plan, spec
        self.schedule = bind(SCHEDULES, spec.schedule, "train.schedule", warmup=spec.warmup, steps=spec.steps)
        self.text = Text(data.tokens, data.starts, data.sizes, data.kept)
        self.inputs, self.outputs = (np.asarray(weight.detach()) for weight in model.parameters())  # the same memory
        self.threads = spec.threads or torch.get_num_threads()
        self.pool = ThreadPoolExecutor(self.threads)

    def steps(self, done: int = 0) -> Iterator[Step]:
        for number in range(done + 1, self.spec.steps + 1):
            yield self.step(number)

    def step(self, number: int) -> Step:
        started = perf_counter()
        epoch, first, last = self.order.rows_at(number).tolist()
        rate = self.spec.learning_rate * self.schedule(number)
        key = key_of(self.spec.seed, epoch)
        borders = self.shares(first, last)

        def work(place: int) -> tuple[float, int]:
            own = borders[place], borders[place + 1]
            return learn(self.text, self.plan, self.inputs, self.outputs, *own, rate, key)

        found = list(self.pool.map(work, range(len(borders) - 1)))
        total, count = (sum(each) for each in zip(*found, strict=True))
        loss = total / max(count, 1)
        if not np.isfinite(loss):
            raise NotFinite(number, f"step {number}: the loss is {loss}")
        words = int(self.data.sizes[first:last].sum())
        return Step(number, loss, rate, 0.0, words, perf_counter() - started)

    def shares(self, first: int, last: int) -> list[int]:
        """Borders between texts with about as many words each; more shares than threads, so that none has to wait."""
        ends = np.cumsum(self.data.sizes[first:last])
        wanted = np.linspace(0, ends[-1], SHARES * self.threads + 1)[1:-1]
        return [first, *(first + np.searchsorted(ends, wanted)).tolist(), last]

    def checkpoint(self, progress: dict[str, Any]) -> Checkpoint:
        return Checkpoint(weights_of(self.model), {}, progress, {})

    def averaged(self) -> AbstractContextManager[None]:
        return nullcontext()

    def load(self, saved: Checkpoint, source: Path) -> None:
        load_weights(self.model, saved.weights, source)
