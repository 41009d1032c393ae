"""Direct preference optimization: a language model learns from ranked answers without a reward model.

    headway train dpo start=runs/sft-1 data.train=rankings.jsonl

The implicit reward of an answer is beta times the change of its log-probability; see objectives/preference.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.settings import setting
from headway.generation.generator import Generator
from headway.models.build import build_decoder_and_reference
from headway.nn.lora import merge_lora
from headway.tasks.abilities import Chats, Generates, KeepsReference
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.prompted import PromptedData
from headway.tasks.rlhf.rankings import RankedBatch
from headway.tasks.rlhf.reward_model import Ranking


@dataclass(frozen=True)
class DpoData(PromptedData):
    lora_rank: int | None = setting(
        None,
        "LoRA rank: train adapters only, the weights without them are the reference; none: train all weights",
        least=1,
        was="adapters",
    )
    beta: float = setting(0.1, "strength of the KL constraint: higher stays closer to the reference", least=0)


class Dpo(Ranking, Generates, Chats, KeepsReference):
    settings = DpoData
    needs_start = True

    def model(self) -> nn.Module:
        data = self.recipe.data
        return PolicyWithReference(
            *build_decoder_and_reference(self.recipe.model, self.vocab_size, data.max_length, data.lora_rank)
        )

    def rewards(self, model: Any, batch: RankedBatch) -> Tensor:
        positions = batch.logit_positions
        targets = batch.inputs[0, positions + 1]
        logits, ref_logits = model.both(batch.inputs, batch.packing, positions)
        log_ratios = -nn.functional.cross_entropy(logits.float(), targets, reduction="none")
        log_ratios = log_ratios + nn.functional.cross_entropy(ref_logits.float(), targets, reduction="none")
        owners = batch.packing.owners(batch.inputs.shape[1])[positions]
        sums: Tensor = torch.zeros(len(batch), device=log_ratios.device).index_add(0, owners, log_ratios)
        return self.recipe.data.beta * sums

    def copy_reference(self, model: PolicyWithReference) -> None:
        model.copy_reference()

    def generator(self, model: Any) -> Generator:
        return self.generator_of(merge_lora(model.decoder))
