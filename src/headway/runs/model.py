"""A trained model in memory: ``headway.load("runs/parity-1").predict(["0110"])``."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from headway.config.errors import Problem
from headway.data.files import Progress, silent
from headway.generation import Sampling
from headway.models.fast_decoder import FORMS, with_matrices
from headway.runs.run import Run
from headway.tasks.abilities import Fills, Generates, Predicts, RanksAnswers, UsesRuns, can, need
from headway.tasks.rlhf.rewards import Reward
from headway.tasks.task import Evaluation, Prediction, Task


class Model:
    def __init__(self, run: Run):
        self.run, self.task, self.network = run, run.task, run.model()

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """A prediction for each text."""
        if isinstance(texts, str):
            raise Problem("predict takes a list of texts: put a single text in brackets")
        return need(self.task, Predicts).predict(self.network, texts)

    def predict_stream(self, texts: Iterable[str], batch_size: int = 1024) -> Iterator[Prediction]:
        """The same for a stream of texts; an empty text has no label."""
        stream = iter(texts)
        while chunk := list(islice(stream, batch_size)):
            predictions = iter(self.predict([text for text in chunk if text.strip()]))
            yield from (next(predictions) if text.strip() else Prediction(text, None, None, {}) for text in chunk)

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 200,
        seed: int = 0,
        stops: Sequence[str] = (),
        **sampling: Any,
    ) -> list[str]:
        """The completion of each prompt: ``model.generate(["def "], temperature=0.8, top_k=50)``."""
        if isinstance(prompts, str):
            raise Problem("generate takes a list of prompts: put a single prompt in brackets")
        seeds = range(seed, seed + len(prompts))
        return self.generator().write(prompts, max_new_tokens, Sampling(**sampling), seeds, stops)

    def generator(self) -> Any:
        return need(self.task, Generates).generator(self.network)

    def fill(self, text: str, count: int = 5) -> list[list[tuple[str, float]]]:
        """The most probable tokens for each [MASK] of a text, with their probabilities."""
        return need(self.task, Fills).fill(self.network, text, count)

    def rate(self, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The reward of each answer."""
        return need(self.task, RanksAnswers).rate(self.network, prompts, answers)

    def evaluate(
        self, data: Path | None = None, progress: Progress = silent, int8: bool = False
    ) -> dict[str, Evaluation]:
        """The metrics on each test set, or on other data; ``int8`` quantizes the weight matrices."""
        if can(self.task, UsesRuns):
            need(self.task, UsesRuns).connect(Run)
        network = quantized(self.task, self.network) if int8 else self.network
        sets = self.task.splits(progress).test if data is None else self.task.data_in(data, progress)
        return {name: evaluate(self.task, network, dataset) for name, dataset in sets.items()}


def load(folder: str | Path) -> Model:
    """The trained model of a run."""
    return Model(Run(folder))


def evaluate(task: Task, network: nn.Module, data: Any) -> Evaluation:
    """Includes the metrics that are only measured on test sets."""
    network.eval()
    evaluation = task.evaluate(network, data)
    return Evaluation(evaluation.metrics | task.test_metrics(network, data), evaluation.predictions, evaluation.details)


def quantized(task: Task, network: nn.Module) -> nn.Module:
    if not can(task, Generates) or next(network.parameters()).is_cuda:
        raise Problem("int8 only works for models that generate text, on a CPU")
    return with_matrices(network, FORMS["int8"])


def best_of(
    generator: Any,
    prompts: Sequence[str],
    count: int,
    reward: Reward,
    max_new_tokens: int,
    sampling: Sampling,
    seed: int,
    stops: Sequence[str] = (),
) -> tuple[list[str], list[float]]:
    """Best-of-n sampling: of ``count`` completions of each prompt, the one with the highest reward, and that reward."""
    repeated = [prompt for prompt in prompts for _ in range(count)]
    texts = generator.write(repeated, max_new_tokens, sampling, range(seed, seed + len(repeated)), stops)
    rewards = np.array(reward(repeated, texts)).reshape(len(prompts), count)
    best = rewards.argmax(axis=1).tolist()
    return [texts[row * count + index] for row, index in enumerate(best)], rewards.max(axis=1).tolist()
