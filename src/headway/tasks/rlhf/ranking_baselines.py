"""The baselines of reward models: the longer answer is the better one, and counting words."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from headway.baselines.rankings import WordRewards
from headway.data.files import Progress, silent
from headway.metrics.items import Items
from headway.tasks.baselines import Baseline, HasBaselines, Measured, Scored, hash_of
from headway.tasks.rlhf.pairwise import AnswerPairs, pair_indices
from headway.tasks.rlhf.rankings import Rankings
from headway.text.tokenizer import Tokenizer

ACCURACY = "accuracy"
START_UP, PER_MILLION = 1.0, 8.0  # seconds: to load scikit-learn, and for a million tokens


class ComparesRankings(HasBaselines):
    """Items are pairs of answers to the same prompt; equal rewards are half right."""

    compared_by = ACCURACY

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Any: ...

    @abstractmethod
    def tokenizer_of(self, side: str) -> Tokenizer: ...

    @abstractmethod
    def pairs(self, model: nn.Module, data: Rankings) -> AnswerPairs: ...

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        return [
            Baseline("the longer or the shorter answer", partial(self.by_length, tests)),
            Baseline("a weight for each word", partial(self.by_words, tests)),
        ]

    def by_length(self, tests: Mapping[str, Rankings]) -> Measured:
        """Which of them, the training data say."""
        train = AnswerPairs.of(*self.lengths_and_ranks(self.splits().train, lambda data: data.answers.lengths))
        sign = 1 if train.accuracy >= 0.5 else -1
        return self.measured(lambda data: sign * data.answers.lengths, tests, 1, "longer" if sign > 0 else "shorter")

    def by_words(self, tests: Mapping[str, Rankings]) -> Measured:
        train = self.splits().train
        model = WordRewards(self.answers(train), *pair_indices(train.answers.labels, owners_of(train)))
        return self.measured(lambda data: model.rewards(self.answers(data)), tests, len(model.weights))

    def measured(
        self,
        rewards: Callable[[Rankings], np.ndarray],
        tests: Mapping[str, Rankings],
        parameters: int,
        about: str = "",
    ) -> Measured:
        pairs = {name: AnswerPairs.of(*self.lengths_and_ranks(data, rewards)) for name, data in tests.items()}
        return Measured({name: Scored(items_in(own)) for name, own in pairs.items()}, parameters, about)

    def lengths_and_ranks(
        self, data: Rankings, rewards: Callable[[Rankings], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        lengths = data.answers.lengths.astype(float)
        return rewards(data).astype(float), lengths, data.answers.labels, owners_of(data)

    def answers(self, data: Rankings) -> list[str]:
        """Without their prompts."""
        decode, prompts = self.tokenizer_of("").decode, data.prompt_sizes[owners_of(data)].tolist()
        return [decode(tokens[size:]) for tokens, size in zip(data.answers.lists(), prompts, strict=True)]

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        sets = {"train": self.splits().train, **tests}
        parts = [part for name, data in sets.items() for part in (name, data.key, data.answers.labels, data.ends)]
        return hash_of(self.tokenizer_of("").to_json(), *parts)

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        sizes = sum(int(data.answers.sizes.sum()) for data in (self.splits().train, *tests.values()))
        return START_UP + PER_MILLION * sizes / 1e6

    def items_of(self, model: Any, data: Rankings) -> Items:
        return items_in(self.pairs(model, data))


def owners_of(data: Rankings) -> np.ndarray:
    """The prompt of each answer."""
    return np.repeat(np.arange(len(data)), np.diff(data.ends))


def items_in(pairs: AnswerPairs) -> Items:
    return Items.of_values(ACCURACY, 0.5 * (1 + np.sign(pairs.margins)))
