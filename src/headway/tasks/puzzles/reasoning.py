"""Steps: multi-step word problems, answered directly or with a chain of thought; see tasks/puzzles/word_problems.

One model learns both; the prompt says which. The difference in accuracy, by number of steps, is the gain of the chain
of thought.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import NextTokenBatch
from headway.data.files import Progress, silent, tell_making
from headway.data.grammar import Random
from headway.data.sequences import Completions
from headway.generation import Sampling, sample
from headway.generation.generator import Generator
from headway.generation.prompts import Shot
from headway.metrics.items import Items
from headway.models.build import build_decoder
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates, Tokenizes
from headway.tasks.baselines import Baseline, HasBaselines, Measured, Scored, hash_of
from headway.tasks.embedding import Body, EmbedsTokens
from headway.tasks.puzzles.word_problems import DIRECT, STEPWISE, all_words, word_problem
from headway.tasks.task import Splits, Task
from headway.text.tokenizer import Tokenizer

WORDS_PER_STEP, OTHER_WORDS = 14, 50  # upper bounds for a question with its solution


@dataclass(frozen=True)
class ReasoningData:
    steps: int = setting(6, "maximum steps per problem", least=1)
    written: float = setting(0.5, "share of problems solved step by step", least=0, most=1)
    examples: int = setting(20_000, "problems to train on", least=1)
    tests: int = setting(200, "problems in each validation and test set", least=1)


class Reasoning(Task, Generates, EmbedsTokens, Tokenizes, HasBaselines):
    compared_by = "accuracy"
    settings = ReasoningData
    generates_data = True
    metric_names = ("loss", "accuracy")
    example = "mia has three coins . she gets four . she doubles them . how many ? step by step :"
    answer_pattern = r"answer (\w+)"

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.tokenizer = Tokenizer.of_words(all_words())
        self.length = OTHER_WORDS + WORDS_PER_STEP * recipe.data.steps

    @property
    def context_length(self) -> int:
        return self.length

    def export_tokens(self, folder: Path) -> dict[str, Any]:
        self.tokenizer.save(folder / "tokenizer.json")
        return {}

    def tokenizer_of(self, side: str) -> Tokenizer:
        return self.tokenizer

    @property
    def eos(self) -> int:
        return self.tokenizer.vocabulary.index["<eos>"]

    def make_splits(self) -> Splits[Completions]:
        """Test sets by number of steps, direct and step by step; no question is in two sets."""
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
            tell_making(self.progress, len(prompts), examples)
            drawn = word_problem(counts[int(random.integers(len(counts)))], random)
            tried += 1
            if drawn.question in taken and tried < 10 * examples:  # there may be too few problems of few steps
                continue
            taken.add(drawn.question)
            with_steps = bool(random.random() < written)
            prompts.append(drawn.prompt(with_steps))
            solutions.append(drawn.solution(with_steps))
        encoded = self.tokenizer.encode(prompts)
        whole = [
            np.concatenate([prompt, solution, [self.eos]])
            for prompt, solution in zip(encoded, self.tokenizer.encode(solutions), strict=True)
        ]
        return Completions.of(whole, [len(prompt) for prompt in encoded])

    def question(self, question: str, shots: Sequence[Shot] = (), think: bool = False) -> str:
        if shots:
            raise Problem("this model was trained on single problems: leave out the examples")
        return f"{question} {STEPWISE if think else DIRECT}"

    def prompts(self, count: int) -> list[str]:
        (data,) = self.splits().validation.values()
        return [self.tokenizer.decode(prompt) for prompt in data.prompts(np.arange(min(count, len(data))))]

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Completions]:
        raise Problem("the problems are generated: evaluating on a file is not possible")

    def model(self) -> nn.Module:
        return build_decoder(self.recipe.model, len(self.tokenizer), self.length)

    def generator(self, model: Any) -> Generator:
        return Generator(model, self.tokenizer, None, self.eos, self.length)

    def body(self, model: Any) -> Body:
        return model

    def loss(self, model: nn.Module, batch: NextTokenBatch) -> Tally:
        return cross_entropy(model(batch.inputs), batch.targets, batch.weights)

    def metrics(self, model: nn.Module, batch: NextTokenBatch) -> dict[str, Tally]:
        return {"loss": self.loss(model, batch), "accuracy": self.answer_accuracy(model, batch)}

    def answer_accuracy(self, model: Any, batch: NextTokenBatch) -> Tally:
        """Accuracy of the word after "answer" in greedy generation."""
        right = self.answers_right(model, batch)
        return Tally(right.float().sum(), len(right))

    def answers_right(self, model: Any, batch: NextTokenBatch) -> Tensor:
        """(B,)"""
        assert batch.weights is not None
        first = batch.weights.float().argmax(dim=1) + 1  # length of the prompt
        sizes = batch.weights.sum(dim=1)
        prompts = [row[:size].tolist() for row, size in zip(batch.inputs, first, strict=True)]
        written = torch.stack(
            list(sample(model, prompts, int(sizes.max()), Sampling(0.0), device=batch.inputs.device)), dim=1
        )
        rows = torch.arange(len(batch), device=batch.inputs.device)
        before_answer = written[:, :-1] == self.tokenizer.vocabulary.index["answer"]
        answers = written[rows, before_answer.float().argmax(dim=1) + 1]
        right = batch.targets[rows, first - 1 + sizes - 2]  # the last word before <eos>
        return before_answer.any(dim=1) & (answers == right)

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        return [Baseline("most frequent answer", partial(self.most_frequent, tests))]

    def most_frequent(self, tests: Mapping[str, Completions]) -> Measured:
        answer = int(np.bincount(answers_of(self.splits().train)).argmax())
        items = {name: Items.of_values("accuracy", answers_of(data) == answer) for name, data in tests.items()}
        return Measured({name: Scored(own) for name, own in items.items()}, 1)

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        return hash_of(*self.splits().train.key, *(part for name, data in tests.items() for part in (name, data.key)))

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        return 0.1

    @torch.inference_mode()
    def items_of(self, model: Any, data: Completions) -> Items:
        device, right = next(model.parameters()).device, np.zeros(len(data), bool)
        for rows, batch in data.batches():
            right[rows] = self.answers_right(model, batch.to(device)).cpu().numpy()
        return Items.of_values("accuracy", right)

    @property
    def chance(self) -> float:
        return math.log(len(self.tokenizer))


def answers_of(data: Completions) -> np.ndarray:
    """The last word of each, before <eos>."""
    return np.asarray(data.tokens[data.starts + data.sizes - 2])
