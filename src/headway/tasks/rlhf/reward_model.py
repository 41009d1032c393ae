"""A reward model: which of two answers is better? It gives an answer a number, read where the text ends.

    headway train reward start=runs/sft-1 data.train=rankings.jsonl

What is learned are differences between answers to one prompt, see objectives/preference. So that numbers say something
by themselves, the answers of the training data have a mean of zero in the end.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.settings import setting
from headway.data.files import Progress, read_json, silent
from headway.generation.generator import Generator
from headway.models.build import build_classifier
from headway.objectives.preference import pairs_of, ranked, wins
from headway.objectives.tally import Tally
from headway.tasks.rlhf.pairwise import Judgement
from headway.tasks.rlhf.prompted import Answering, AnsweringData
from headway.tasks.rlhf.prompts import Answers
from headway.tasks.rlhf.rankings import RankedBatch, Rankings
from headway.tasks.task import Answer, Splits

REWARDS = "rewards.json"  # the mean reward of the training data's answers, and how they are spread
LEVELS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # of the distribution of rewards


@dataclass(frozen=True)
class RewardData(AnsweringData):
    judge: str | None = setting(
        None, "ranks what the start writes to prompts: a rule, a function, a run; none: the file has ranked answers"
    )
    answers: int = setting(4, "then: written to each prompt", least=2)
    answer: int = setting(48, "then: tokens of an answer at most", least=1)
    noise: float = setting(0.0, "then: the spread of the judge's error", least=0)


class Reward(Answering):
    settings: ClassVar[type] = RewardData
    metric_names = ("loss", "accuracy")
    example = "a prompt of your own"
    asked_with = "reward"
    least = 2

    def __init__(self, recipe: Any):
        super().__init__(recipe)
        self.centre = 0.0

    def next_words(self, folder: Path) -> tuple[object, ...]:
        return self.asked_with, folder, self.example, "an answer", "another answer"

    def made(self, prompts: list[np.ndarray], answers: list[list[np.ndarray]], found: list[Answers]) -> Rankings:
        return Rankings.of(prompts, answers, [each.ranks for each in found])

    def splits(self, progress: Progress = silent) -> Splits[Rankings]:
        found = super().splits(progress)
        for name, data in found.sets.items():
            if not data.answers.labels.any():
                raise Problem(f"of the answers of {name}, none is better than another: all of their ranks are ties")
        return found

    def model(self) -> nn.Module:
        spec = replace(self.recipe.model, causal=True, pooling="last")
        return build_classifier(spec, self.symbols, self.recipe.data.length, 1)

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        if (folder / REWARDS).is_file():
            self.centre = float(read_json(folder / REWARDS)["mean"])

    def rewards(self, model: nn.Module, batch: RankedBatch) -> Tensor:
        """(n,): of each sequence."""
        logits: Tensor = model(batch.inputs, packing=batch.packing)
        return logits[:, 0]

    def loss(self, model: nn.Module, batch: RankedBatch) -> Tally:
        return ranked(self.rewards(model, batch), batch.targets, batch.prompt_ids)

    def metrics(self, model: nn.Module, batch: RankedBatch) -> dict[str, Tally]:
        rewards = self.rewards(model, batch)
        first, second = pairs_of(batch.prompt_ids)
        won = wins(batch.targets, first, second)
        said = 0.5 * (1 + (rewards[first] - rewards[second]).sign().to(won.dtype))  # equals are half right
        right = (1 - (said - won).abs())[won != 0.5]
        return {"loss": ranked(rewards, batch.targets, batch.prompt_ids), "accuracy": Tally(right.sum(), len(right))}

    def generation_metrics(self, model: nn.Module, data: Rankings) -> dict[str, float]:
        return self.judgement(model, data).scores()

    def judgement(self, model: nn.Module, data: Rankings) -> Judgement:
        """What the model says of all pairs of answers to a prompt."""
        rewards, lengths = self.rewards_of(model, data) - self.centre, data.answers.lengths.astype(float)
        owners = np.repeat(np.arange(len(data)), np.diff(data.ends))
        return Judgement.of(rewards, lengths, data.answers.labels, owners)

    @torch.inference_mode()
    def rewards_of(self, model: nn.Module, data: Rankings) -> np.ndarray:
        """(n,): of all answers, before they are centred."""
        device = next(model.parameters()).device
        found = np.empty(len(data.answers))
        for rows, batch in data.batches():
            places, _ = data.answers_to(rows)
            found[places] = self.rewards(model, batch.to(device)).double().cpu().numpy()
        return found

    def conclude(self, model: nn.Module, splits: Splits[Rankings], folder: Path) -> None:
        rewards = self.rewards_of(model, splits.train)
        self.centre = float(rewards.mean())
        levels = {f"{level:.0%}": float(np.quantile(rewards - self.centre, level)) for level in LEVELS}
        about = {"mean": self.centre, "spread": float(rewards.std()), "centred": levels}
        (folder / REWARDS).write_text(json.dumps(about, indent=2))

    def rate(self, model: nn.Module, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The centred reward of each answer; what is too long loses its beginning."""
        found = [Answers(0, prompt, [answer], [0]) for prompt, answer in zip(prompts, answers, strict=True)]
        pairs = zip(self.tokens_of_prompts(prompts), self.tokens_of_answers(found), strict=True)
        texts = [np.concatenate([prompt, *own])[-self.recipe.data.length :] for prompt, own in pairs]
        data = Rankings.of([text[:0] for text in texts], [[text] for text in texts], [[0.0] for _ in texts])
        return [float(reward) - self.centre for reward in self.rewards_of(model, data)]

    def answer(self, model: nn.Module, texts: Sequence[str]) -> list[Answer]:
        raise Problem(f"a run of {self.recipe.task} ranks answers: headway reward RUN PROMPT ANSWER ANSWER")

    def generator(self, model: nn.Module) -> Generator:
        raise Problem(f"a run of {self.recipe.task} ranks answers: headway reward RUN PROMPT ANSWER ANSWER")

    @property
    def chance(self) -> float:
        return math.log(2)
