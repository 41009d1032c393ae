"""Rankings: prompts with several ranked answers each. A batch has all answers to its prompts, packed into one row."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from headway.config.recipe import TrainSpec
from headway.data.packed_batch import PackedBatch
from headway.data.samplers import ExampleSampler, filled
from headway.data.sequences import LabelledSequences, completion_positions

EVALUATION = 64, 1 << 14  # maximum prompts and tokens per batch


@dataclass(frozen=True, kw_only=True)
class RankedBatch(PackedBatch):
    """Targets (n,) are the ranks of the answers."""

    prompts: int  # number of prompts
    prompt_ids: Tensor  # (n,): the prompt of each answer
    prompt_sizes: Tensor  # (n,): tokens of the prompt in each sequence

    @property
    def count(self) -> int:
        return self.prompts

    @property
    def logit_positions(self) -> Tensor:
        """(K,): the positions before each token of an answer."""
        return completion_positions(self.packing, self.prompt_sizes)


@dataclass(frozen=True)
class Rankings:
    """``answers`` are sequences of prompt and answer, labelled by rank and grouped by prompt."""

    answers: LabelledSequences
    ends: np.ndarray  # (P + 1,): 0, then the end of the answers to each prompt
    prompt_sizes: np.ndarray  # (P,): tokens of each prompt

    @classmethod
    def of(cls, prompts: list[np.ndarray], answers: list[list[np.ndarray]], ranks: list[list[float]]) -> "Rankings":
        whole = [
            np.concatenate([prompt, answer]) for prompt, own in zip(prompts, answers, strict=True) for answer in own
        ]
        labels = [rank for own in ranks for rank in np.unique(own, return_inverse=True)[1].tolist()]
        ends = np.cumsum([0, *map(len, answers)])
        return cls(replace(LabelledSequences.of(whole, labels), packed=True), ends, np.array(list(map(len, prompts))))

    @property
    def key(self) -> str:
        return self.answers.key

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(P,): total tokens of the answers to each prompt."""
        return np.add.reduceat(self.answers.lengths, self.ends[:-1])

    def answers_to(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the answers to these prompts, and for each the index of its prompt in ``rows``."""
        sizes = np.diff(self.ends)[rows]
        owners = np.repeat(np.arange(len(rows)), sizes)
        first = np.cumsum(sizes) - sizes
        return self.ends[rows][owners] + np.arange(len(owners)) - first[owners], owners

    def batch(self, rows: np.ndarray) -> RankedBatch:
        indices, owners = self.answers_to(rows)
        row, cu_seqlens, longest = self.answers.pack(indices)
        return RankedBatch(
            inputs=row,
            targets=torch.from_numpy(self.answers.labels[indices]),
            cu_seqlens=cu_seqlens,
            max_seqlen=longest,
            prompt_ids=torch.from_numpy(owners),
            prompts=len(rows),
            prompt_sizes=torch.from_numpy(self.prompt_sizes[rows][owners]),
        )

    def sampler(self, spec: TrainSpec) -> ExampleSampler:
        return ExampleSampler(self.lengths, spec.batch_size, spec.batch_tokens, spec.seed, packed=True)

    def longest(self) -> RankedBatch:
        index = int(np.searchsorted(self.ends, int(self.answers.lengths.argmax()), side="right")) - 1
        return self.batch(np.array([index]))

    def batches(self) -> Iterator[tuple[np.ndarray, RankedBatch]]:
        for rows in filled(np.arange(len(self)), self.lengths, *EVALUATION):
            yield rows, self.batch(rows)
