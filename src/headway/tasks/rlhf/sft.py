"""Supervised fine-tuning: to answer prompts as in a file of examples. Only the answers are learned.

    headway train sft start=runs/language-1 data.train=answers.jsonl

Of prompts with ranked answers, the best one is learned.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from headway.data.batch import Batch
from headway.data.completions import Completions
from headway.generation.generator import Writer
from headway.models.build import build_decoder
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.rlhf.prompted import Answering
from headway.tasks.rlhf.prompts import Answers


class Sft(Answering):
    scores = ("loss", "accuracy")
    example = "a prompt of your own"
    asked_with = "generate"

    def made(self, prompts: list[np.ndarray], answers: list[list[np.ndarray]], found: list[Answers]) -> Completions:
        best = [own[each.answers.index(each.best)] for own, each in zip(answers, found, strict=True)]
        whole = [np.concatenate(both) for both in zip(prompts, best, strict=True)]
        return replace(Completions.of(whole, [len(prompt) for prompt in prompts]), packed=True)

    def model(self) -> nn.Module:
        return build_decoder(self.recipe.model, self.symbols, self.recipe.data.length)

    def scores_of(self, model: nn.Module, batch: Batch) -> Tensor:
        scores: Tensor = model(batch.inputs, packing=batch.packing, wanted=batch.places)
        return scores

    def loss(self, model: nn.Module, batch: Batch) -> Tally:
        return cross_entropy(self.scores_of(model, batch), batch.targets)

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tally]:
        scores = self.scores_of(model, batch)
        right = (scores.argmax(dim=-1) == batch.targets).sum()
        return {"loss": cross_entropy(scores, batch.targets), "accuracy": Tally(right, batch.count)}

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700))}

    def writer(self, model: Any) -> Writer:
        return self.writer_of(model)

    @property
    def chance(self) -> float:
        return math.log(self.symbols)
