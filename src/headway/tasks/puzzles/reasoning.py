"""Steps: problems of several steps, answered at once or with the steps written down; see tasks/puzzles/word_problems.

One model learns both ways: the prompt says which is wanted. What it then gets right each way, by the number of steps,
is the gain of writing them down.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import NextTokenBatch
from headway.data.files import Progress, silent
from headway.data.grammar import Random
from headway.data.sequences import Completions
from headway.generation import Sampling, sample
from headway.generation.generator import Generator
from headway.generation.prompts import Shot
from headway.models.build import build_decoder
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates, Tokenizes
from headway.tasks.puzzles.word_problems import DIRECT, WRITTEN, all_words, problem
from headway.tasks.task import Splits, Task
from headway.text.tokenizer import Tokenizer

WORDS_OF_A_STEP, WORDS_AROUND = 14, 50  # at most, in a question and its solution together


@dataclass(frozen=True)
class ReasoningData:
    steps: int = setting(6, "steps of a problem at most", least=1)
    written: float = setting(0.5, "share of the problems whose steps are written down", least=0, most=1)
    examples: int = setting(20_000, "problems to train on", least=1)
    tests: int = setting(200, "problems in each set to validate and to test on", least=1)


class Reasoning(Task, Generates, Tokenizes):
    settings = ReasoningData
    metric_names = ("loss", "accuracy")
    example = "mia has three coins . she gets four . she doubles them . how many ? step by step :"
    answer_pattern = r"answer (\w+)"

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.tokenizer = Tokenizer.of_words(all_words())
        self.length = WORDS_AROUND + WORDS_OF_A_STEP * recipe.data.steps

    @property
    def context_length(self) -> int:
        return self.length

    def export_tokens(self, folder: Path) -> dict[str, Any]:
        self.tokenizer.save(folder / "tokenizer.json")
        return {}

    def tokenizer_of(self, side: str) -> Tokenizer:
        return self.tokenizer

    @property
    def end(self) -> int:
        return self.tokenizer.vocabulary.index["<eos>"]

    def make_splits(self) -> Splits[Completions]:
        """Test sets by the number of steps, each way; no question is in two sets."""
        data, random = self.recipe.data, np.random.default_rng([self.recipe.train.seed, 0])
        taken: set[str] = set()
        tests = {
            f"{count} {'step' if count == 1 else 'steps'}, {'written' if written else 'at once'}": self.draw(
                data.tests, [count], float(written), taken, random
            )
            for count in range(1, data.steps + 1)
            for written in (False, True)
            if (data.written < 1 or written) and (data.written > 0 or not written)
        }
        counts = list(range(1, data.steps + 1))
        validation = self.draw(data.tests, counts, data.written, taken, random)
        return Splits(self.draw(data.examples, counts, data.written, taken, random), {"validation": validation}, tests)

    def draw(self, examples: int, counts: list[int], written: float, taken: set[str], random: Random) -> Completions:
        prompts: list[str] = []
        solutions: list[str] = []
        tried = 0
        while len(prompts) < examples:
            found = problem(counts[int(random.integers(len(counts)))], random)
            tried += 1
            if found.question in taken and tried < 10 * examples:  # of few steps, there may not be so many
                continue
            taken.add(found.question)
            way = bool(random.random() < written)
            prompts.append(found.prompt(way))
            solutions.append(found.solution(way))
        asked = self.tokenizer.encode(prompts)
        whole = [
            np.concatenate([prompt, solution, [self.end]])
            for prompt, solution in zip(asked, self.tokenizer.encode(solutions), strict=True)
        ]
        return Completions.of(whole, [len(prompt) for prompt in asked])

    def question(self, question: str, shots: Sequence[Shot] = (), think: bool = False) -> str:
        if shots:
            raise Problem("a model of steps was trained on single problems: leave the examples out")
        return f"{question} {WRITTEN if think else DIRECT}"

    def prompts(self, count: int) -> list[str]:
        (data,) = self.splits().validation.values()
        return [self.tokenizer.decode(prompt) for prompt in data.prompts(np.arange(min(count, len(data))))]

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Completions]:
        raise Problem("problems of steps are made on the spot: there is no file of them to measure on")

    def model(self) -> nn.Module:
        return build_decoder(self.recipe.model, len(self.tokenizer), self.length)

    def generator(self, model: Any) -> Generator:
        return Generator(model, self.tokenizer, None, self.end, self.length)

    def loss(self, model: nn.Module, batch: NextTokenBatch) -> Tally:
        return cross_entropy(model(batch.inputs), batch.targets, batch.weights)

    def metrics(self, model: nn.Module, batch: NextTokenBatch) -> dict[str, Tally]:
        return {"loss": self.loss(model, batch), "accuracy": self.answered(model, batch)}

    def answered(self, model: Any, batch: NextTokenBatch) -> Tally:
        """Of how many problems the right word stands behind "answer", when the model writes by itself."""
        assert batch.weights is not None
        first = batch.weights.float().argmax(dim=1) + 1  # the prompt's tokens, and what is learned behind them
        sizes = batch.weights.sum(dim=1)
        prompts = [row[:size].tolist() for row, size in zip(batch.inputs, first, strict=True)]
        written = torch.stack(
            list(sample(model, prompts, int(sizes.max()), Sampling(0.0), device=batch.inputs.device)), dim=1
        )
        rows = torch.arange(len(batch), device=batch.inputs.device)
        said = written[:, :-1] == self.tokenizer.vocabulary.index["answer"]
        found = written[rows, said.float().argmax(dim=1) + 1]
        right = batch.targets[rows, first - 1 + sizes - 2]  # the last word before the end
        return Tally((said.any(dim=1) & (found == right)).float().sum(), len(batch))

    @property
    def chance(self) -> float:
        return math.log(len(self.tokenizer))
