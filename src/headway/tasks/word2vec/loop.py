"""The training loop of word vectors: the same steps and checkpoints as training/loop, with engines of its own
(cpu_engine and gpu_engine).

A step trains on a chunk of the text; its loss is the mean over all pairs of the chunk.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from headway.config.recipe import TrainSpec
from headway.tasks.word2vec.cpu_engine import (
    FULL,
    HIERARCHICAL,
    NEGATIVE,
    CpuEngine,
    EngineConfig,
    TrainingText,
    epoch_key,
)
from headway.tasks.word2vec.gpu_engine import GpuEngine
from headway.tasks.word2vec.model import WordVectorModel
from headway.tasks.word2vec.windows import ChunkSampler, WordTexts
from headway.training.checkpoint import Checkpoint, load_weights, weights_of
from headway.training.finite import NotFinite
from headway.training.loop import Step
from headway.training.schedules import Schedule


class Engine(Protocol):
    def learn(self, first: int, last: int, rate: float, key: np.uint64) -> tuple[float, int]:
        """Train on the texts from ``first`` to ``last``; return the sum of the losses and their number."""


def engine_of(model: WordVectorModel, data: WordTexts, train: TrainSpec, device: torch.device) -> Engine:
    """The GPU engine needs negative samples, which it shares between pairs; other losses train on the CPU."""
    spec = model.spec
    loss = {"full": FULL, "negative": NEGATIVE, "hierarchical": HIERARCHICAL}[spec.loss]
    sampling = data.window, data.negatives, *data.alias_table
    config = EngineConfig(spec.cbow, loss, *sampling, spec.row_starts, spec.rows, *spec.paths)
    text = TrainingText(data.tokens, data.starts, data.sizes, data.keep, data.sentence_end)
    if device.type == "cuda" and loss == NEGATIVE:
        return GpuEngine(text, config, *(weight.detach() for weight in model.to(device).parameters()))
    inputs, outputs = (np.asarray(weight.detach()) for weight in model.parameters())  # the same memory
    return CpuEngine(text, config, inputs, outputs, train.threads or torch.get_num_threads())


class VectorLoop:
    def __init__(self, model: nn.Module, data: WordTexts, sampler: ChunkSampler, engine: Engine, spec: TrainSpec):
        self.model, self.data, self.sampler, self.engine, self.spec = model, data, sampler, engine, spec
        self.schedule = Schedule(spec)

    def steps(self, done: int = 0, total: Callable[[int], float] | None = None) -> Iterator[Step]:
        for number in range(done + 1, self.spec.steps + 1):
            yield self.step(number, self.spec.steps if total is None else total(number))

    def step(self, number: int, total: float | None = None) -> Step:
        started = perf_counter()
        epoch, first, last = self.sampler.rows_at(number).tolist()
        rate = self.spec.learning_rate * self.schedule(number - 0.5, total)  # at the middle of the step, which is long
        total, count = self.engine.learn(first, last, rate, epoch_key(self.spec.seed, epoch))
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
