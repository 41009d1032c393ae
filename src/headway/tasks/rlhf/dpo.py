"""Direct preference optimisation: a model that writes learns from ranked answers, without a reward model between.

    headway train dpo start=runs/sft-1 data.train=rankings.jsonl

What it has made likelier than it was at the start counts as the reward of an answer; see objectives/preference.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.settings import setting
from headway.generation.generator import Generator
from headway.models.build import build_decoder_and_reference
from headway.nn.lora import merged
from headway.tasks.abilities import Generates, KeepsReference
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.prompted import PromptedData
from headway.tasks.rlhf.rankings import RankedBatch
from headway.tasks.rlhf.reward_model import Ranking


@dataclass(frozen=True)
class DpoData(PromptedData):
    lora_rank: int | None = setting(
        None,
        "rank of adapters to learn in place of the matrices: one body is policy and start; none: all learns",
        least=1,
        was="adapters",
    )
    beta: float = setting(0.1, "of going away from the start: higher stays nearer", least=0)


class Dpo(Ranking, Generates, KeepsReference):
    settings = DpoData
    needs_start = True

    def model(self) -> nn.Module:
        data = self.recipe.data
        return PolicyWithReference(
            *build_decoder_and_reference(self.recipe.model, self.symbols, data.max_length, data.lora_rank)
        )

    def rewards(self, model: Any, batch: RankedBatch) -> Tensor:
        places = batch.logit_positions
        told = batch.inputs[0, places + 1]
        now, before = model.both(batch.inputs, batch.packing, places)
        gained = -nn.functional.cross_entropy(now.float(), told, reduction="none")
        gained = gained + nn.functional.cross_entropy(before.float(), told, reduction="none")
        owners = batch.packing.owners(batch.inputs.shape[1])[places]
        whole: Tensor = torch.zeros(len(batch), device=gained.device).index_add(0, owners, gained)
        return self.recipe.data.beta * whole

    def copy_reference(self, model: PolicyWithReference) -> None:
        model.copy_reference()

    def generator(self, model: Any) -> Generator:
        return self.generator_of(merged(model.decoder))
