"""A reward model: which of two answers is better? It gives an answer a number, read where the text ends.

    headway train reward start=runs/sft-1 data.train=rankings.jsonl

What is learned are differences between answers to one prompt, see objectives/preference. So that numbers say something
by themselves, the answers of the training data have a mean of zero in the end.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.settings import setting
from headway.data.files import Progress, read_json
from headway.models.build import build_classifier
from headway.objectives.preference import pairs_of, ranked, wins
from headway.objectives.tally import Tally
from headway.tasks.abilities import Concludes, MakesData, OpenRun, RanksAnswers
from headway.tasks.rlhf.pairwise import AnswerPairs, report
from headway.tasks.rlhf.prompted import Prompted, PromptedData
from headway.tasks.rlhf.prompts import Answers
from headway.tasks.rlhf.ranking_data import Labelling, write_rankings
from headway.tasks.rlhf.rankings import RankedBatch, Rankings
from headway.tasks.task import Evaluation, Splits

REWARDS = "rewards.json"  # the mean reward of the training data's answers, and how they are spread
LEVELS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # of the distribution of rewards


@dataclass(frozen=True)
class RewardData(PromptedData):
    judge: str | None = setting(
        None, "ranks what the start writes to prompts: a rule, a function, a run; none: the file has ranked answers"
    )
    answers: int = setting(4, "then: written to each prompt", least=2)
    max_new_tokens: int = setting(48, "then: tokens of an answer at most", least=1, was="answer")
    noise: float = setting(0.0, "then: the spread of the judge's error", least=0)


class Ranking(Prompted):
    """What a reward model and DPO share: a number for each answer, learned from which of two is better."""

    metric_names = ("loss", "accuracy")
    example = "a prompt of your own"
    least = 2
    centre = 0.0  # what is taken off a reward

    @abstractmethod
    def rewards(self, model: nn.Module, batch: RankedBatch) -> Tensor:
        """(n,): of each sequence."""

    def dataset(self, tokens: list[np.ndarray], answers: list[list[np.ndarray]], prompts: list[Answers]) -> Rankings:
        return Rankings.of(tokens, answers, [each.ranks for each in prompts])

    def make_splits(self) -> Splits[Rankings]:
        splits = super().make_splits()
        for name, data in splits.sets.items():
            if not data.answers.labels.any():
                raise Problem(f"of the answers of {name}, none is better than another: all of their ranks are ties")
        return splits

    def loss(self, model: nn.Module, batch: RankedBatch) -> Tally:
        return ranked(self.rewards(model, batch), batch.targets, batch.prompt_ids)

    def metrics(self, model: nn.Module, batch: RankedBatch) -> dict[str, Tally]:
        rewards = self.rewards(model, batch)
        first, second = pairs_of(batch.prompt_ids)
        won = wins(batch.targets, first, second)
        said = 0.5 * (1 + (rewards[first] - rewards[second]).sign().to(won.dtype))  # equals are half right
        right = (1 - (said - won).abs())[won != 0.5]
        return {"loss": ranked(rewards, batch.targets, batch.prompt_ids), "accuracy": Tally(right.sum(), len(right))}

    def evaluate(self, model: nn.Module, data: Rankings) -> Evaluation:
        pairs = self.pairs(model, data)
        return Evaluation(self.measure(model, data), details=report(pairs))

    def test_metrics(self, model: nn.Module, data: Rankings) -> dict[str, float]:
        return self.pairs(model, data).scores()

    def pairs(self, model: nn.Module, data: Rankings) -> AnswerPairs:
        """What the model says of all pairs of answers to a prompt."""
        rewards, lengths = self.rewards_of(model, data) - self.centre, data.answers.lengths.astype(float)
        owners = np.repeat(np.arange(len(data)), np.diff(data.ends))
        return AnswerPairs.of(rewards, lengths, data.answers.labels, owners)

    @torch.inference_mode()
    def rewards_of(self, model: nn.Module, data: Rankings) -> np.ndarray:
        """(n,): of all answers, before they are centred."""
        device = next(model.parameters()).device
        rewards = np.empty(len(data.answers))
        for rows, batch in data.batches():
            indices, _ = data.answers_to(rows)
            rewards[indices] = self.rewards(model, batch.to(device)).double().cpu().numpy()
        return rewards

    @property
    def chance(self) -> float:
        return math.log(2)


class RewardModel(Ranking, RanksAnswers, Concludes, MakesData):
    settings: ClassVar[type] = RewardData

    def model(self) -> nn.Module:
        spec = replace(self.recipe.model, causal=True, pooling="last")
        return build_classifier(spec, self.symbols, self.recipe.data.max_length, 1)

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        if (folder / REWARDS).is_file():
            self.centre = float(read_json(folder / REWARDS)["mean"])

    def lacks_data(self) -> bool:
        return self.recipe.data.judge is not None

    def make_data(self, path: Path, open_run: OpenRun, progress: Progress) -> tuple[str, list[str]]:
        data = self.recipe.data
        how = Labelling(data.answers, data.max_new_tokens, data.noise, self.recipe.train.seed)
        prompts = write_rankings(str(self.recipe.start), self.train.path, data.judge, path, how, open_run, progress)
        message = f"{prompts:,} prompts with {data.answers} answers each, ranked, in {path}"
        return message, [f"data.train={path}", "data.judge=none"]

    def rewards(self, model: nn.Module, batch: RankedBatch) -> Tensor:
        logits: Tensor = model(batch.inputs, packing=batch.packing)
        return logits[:, 0]

    def conclude(self, model: nn.Module, splits: Splits[Rankings], folder: Path) -> None:
        """Centre the rewards, and keep their distribution."""
        rewards = self.rewards_of(model, splits.train)
        self.centre = float(rewards.mean())
        levels = {f"{level:.0%}": float(np.quantile(rewards - self.centre, level)) for level in LEVELS}
        about = {"mean": self.centre, "spread": float(rewards.std()), "centred": levels}
        (folder / REWARDS).write_text(json.dumps(about, indent=2))

    def rate(self, model: nn.Module, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The centred reward of each answer; a text that is too long loses its beginning."""
        rows = [Answers(0, prompt, [answer], [0]) for prompt, answer in zip(prompts, answers, strict=True)]
        pairs = zip(self.tokens_of_prompts(prompts), self.tokens_of_answers(rows), strict=True)
        texts = [np.concatenate([prompt, *own])[-self.recipe.data.max_length :] for prompt, own in pairs]
        data = Rankings.of([text[:0] for text in texts], [[text] for text in texts], [[0.0] for _ in texts])
        return [float(reward) - self.centre for reward in self.rewards_of(model, data)]
