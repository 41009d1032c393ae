"""Supervised fine-tuning on prompts with answers. Only the answers are trained on.

    headway train sft start=runs/language-1 data.train=answers.jsonl

If a prompt has ranked answers, the best one is used.
"""

import math
from typing import Any

import numpy as np
from torch import Tensor, nn

from headway.data.packed_batch import PackedTokenBatch
from headway.data.sequences import Completions
from headway.generation.generator import Generator
from headway.metrics import perplexity
from headway.models.build import build_decoder
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates
from headway.tasks.embedding import Body
from headway.tasks.rlhf.prompted import Prompted
from headway.tasks.rlhf.prompts import PromptExample
from headway.tasks.token_baselines import ComparesCompletions


class Sft(Prompted, Generates, ComparesCompletions):
    metric_names = ("loss", "accuracy")
    example = "a prompt of your own"

    def dataset(
        self, tokens: list[np.ndarray], answers: list[list[np.ndarray]], prompts: list[PromptExample]
    ) -> Completions:
        best = [own[each.answers.index(each.best)] for own, each in zip(answers, prompts, strict=True)]
        whole = [np.concatenate(both) for both in zip(tokens, best, strict=True)]
        return Completions.of(whole, [len(prompt) for prompt in tokens], packed=True)

    def model(self) -> nn.Module:
        return build_decoder(self.recipe.model, self.vocab_size, self.recipe.data.max_length)

    def logits_of(self, model: nn.Module, batch: PackedTokenBatch) -> Tensor:
        logits: Tensor = model(batch.inputs, packing=batch.packing, logit_positions=batch.logit_positions)
        return logits

    def loss(self, model: nn.Module, batch: PackedTokenBatch) -> Tally:
        return cross_entropy(self.logits_of(model, batch), batch.targets)

    def metrics(self, model: nn.Module, batch: PackedTokenBatch) -> dict[str, Tally]:
        logits = self.logits_of(model, batch)
        right = (logits.argmax(dim=-1) == batch.targets).sum()
        return {"loss": cross_entropy(logits, batch.targets), "accuracy": Tally(right, batch.count)}

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means["loss"])}

    def body(self, model: Any) -> Body:
        return model

    def generator(self, model: Any) -> Generator:
        return self.generator_of(model)

    @property
    def chance(self) -> float:
        return math.log(self.vocab_size)
