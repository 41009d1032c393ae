"""A reward model: it scores answers, and is trained to score the better of two higher.

    headway train reward start=runs/sft-1 data.train=rankings.jsonl

Only differences between answers to the same prompt are learned, see objectives/preference. After training, rewards are
centered: the training answers have a mean reward of zero.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.json_files import NUMBER, read_json
from headway.config.settings import setting
from headway.data.files import Progress
from headway.data.storage import write_whole
from headway.models.build import build_classifier
from headway.objectives.preference import answer_pairs, ranking_loss, wins
from headway.objectives.tally import Tally
from headway.tasks.abilities import Concludes, MakesData, OpenRun, RanksAnswers
from headway.tasks.embedding import Body
from headway.tasks.rlhf.pairwise import AnswerPairs, report
from headway.tasks.rlhf.prompted import Prompted, PromptedData
from headway.tasks.rlhf.prompts import PromptExample
from headway.tasks.rlhf.ranking_baselines import ComparesRankings
from headway.tasks.rlhf.ranking_data import RankingPlan, write_rankings
from headway.tasks.rlhf.rankings import RankedBatch, Rankings
from headway.tasks.rlhf.rewards import RULES
from headway.tasks.task import Evaluation, Splits

REWARDS = "rewards.json"  # mean and distribution of the rewards of the training answers
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


@dataclass(frozen=True)
class RewardData(PromptedData):
    judge: str | None = setting(
        None, "a rule, function or run that ranks answers sampled from the start; none: the file has ranked answers"
    )
    answers: int = setting(4, "with a judge: answers per prompt", least=2)
    max_new_tokens: int = setting(48, "with a judge: maximum tokens of an answer", least=1, was="answer")
    noise: float = setting(0.0, "with a judge: standard deviation of noise added to its scores", least=0)


class Ranking(Prompted, ComparesRankings):
    """Shared by reward models and DPO: rewards of answers, trained on pairwise preferences."""

    metric_names = ("loss", "accuracy")
    columns = ("prompt", "answers")
    example = "a prompt of your own"
    min_answers = 2
    center = 0.0  # subtracted from rewards

    @abstractmethod
    def rewards(self, model: nn.Module, batch: RankedBatch) -> Tensor:
        """(n,): of all sequences."""

    def dataset(
        self, tokens: list[np.ndarray], answers: list[list[np.ndarray]], prompts: list[PromptExample]
    ) -> Rankings:
        return Rankings.of(tokens, answers, [each.ranks for each in prompts])

    def make_splits(self) -> Splits[Rankings]:
        splits = super().make_splits()
        for name, data in splits.sets.items():
            if not data.answers.labels.any():
                raise Problem(f"all answers of {name} are ties: no answer is better than another")
        return splits

    def loss(self, model: nn.Module, batch: RankedBatch) -> Tally:
        return ranking_loss(self.rewards(model, batch), batch.targets, batch.prompt_ids)

    def metrics(self, model: nn.Module, batch: RankedBatch) -> dict[str, Tally]:
        rewards = self.rewards(model, batch)
        first, second = answer_pairs(batch.prompt_ids)
        won = wins(batch.targets, first, second)
        predicted = 0.5 * (1 + (rewards[first] - rewards[second]).sign().to(won.dtype))  # a tie counts half
        right = (1 - (predicted - won).abs())[won != 0.5]
        return {
            "loss": ranking_loss(rewards, batch.targets, batch.prompt_ids),
            "accuracy": Tally(right.sum(), len(right)),
        }

    def evaluate(self, model: nn.Module, data: Rankings) -> Evaluation:
        pairs = self.pairs(model, data)
        return Evaluation(self.measure(model, data), details=report(pairs))

    def test_metrics(self, model: nn.Module, data: Rankings) -> dict[str, float]:
        return self.pairs(model, data).scores()

    def pairs(self, model: nn.Module, data: Rankings) -> AnswerPairs:
        """The rewards of all pairs of answers to the same prompt."""
        rewards, lengths = self.rewards_of(model, data) - self.center, data.answers.lengths.astype(float)
        owners = np.repeat(np.arange(len(data)), np.diff(data.ends))
        return AnswerPairs.of(rewards, lengths, data.answers.labels, owners)

    @torch.inference_mode()
    def rewards_of(self, model: nn.Module, data: Rankings) -> np.ndarray:
        """(n,): of all answers, before centering."""
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
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.judge": RULES, **Ranking.tables}

    def model(self) -> nn.Module:
        spec = replace(self.recipe.model, causal=True, pooling="last")
        return build_classifier(spec, self.vocab_size, self.recipe.data.max_length, 1)

    def body(self, model: Any) -> Body:
        return model.encoder

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        if (folder / REWARDS).is_file():
            self.center = float(read_json(folder / REWARDS, {"mean": NUMBER})["mean"])

    def lacks_data(self) -> bool:
        return self.recipe.data.judge is not None

    def make_data(self, path: Path, open_run: OpenRun, progress: Progress) -> tuple[str, list[str]]:
        data = self.recipe.data
        plan = RankingPlan(data.answers, data.max_new_tokens, data.noise, self.recipe.train.seed)
        prompts = write_rankings(str(self.recipe.start), self.train.path, data.judge, path, plan, open_run, progress)
        message = f"wrote {prompts:,} prompts with {data.answers} ranked answers each to {path}"
        return message, [f"data.train={path}", "data.judge=none"]

    def rewards(self, model: nn.Module, batch: RankedBatch) -> Tensor:
        logits: Tensor = model(batch.inputs, packing=batch.packing)
        return logits[:, 0]

    def conclude(self, model: nn.Module, splits: Splits[Rankings], folder: Path) -> None:
        """Center the rewards, and store their distribution."""
        rewards = self.rewards_of(model, splits.train)
        self.center = float(rewards.mean())
        levels = {f"{level:.0%}": float(np.quantile(rewards - self.center, level)) for level in QUANTILES}
        about = {"mean": self.center, "spread": float(rewards.std()), "centred": levels}
        write_whole(folder / REWARDS, json.dumps(about, indent=2))  # a run that is killed here is read again

    def rate(self, model: nn.Module, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """Centered rewards; a text that is too long loses its beginning."""
        rows = [PromptExample(0, prompt, [answer], [0]) for prompt, answer in zip(prompts, answers, strict=True)]
        pairs = zip(self.tokens_of_prompts(prompts), self.tokens_of_answers(rows), strict=True)
        texts = [np.concatenate([prompt, *own])[-self.recipe.data.max_length :] for prompt, own in pairs]
        data = Rankings.of([text[:0] for text in texts], [[text] for text in texts], [[0.0] for _ in texts])
        return [float(reward) - self.center for reward in self.rewards_of(model, data)]
