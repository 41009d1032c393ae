"""Rollouts: training data sampled from the policy itself. Each round samples answers to prompts and trains on them for
several epochs.

A round is determined by the seed, its number and the weights at its beginning. It is part of the checkpoints, so that a
run can resume in the middle of one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.recipe import TrainSpec
from headway.data.packed_batch import PackedTokenBatch
from headway.data.samplers import Sampler
from headway.data.stream import Stream
from headway.nn.packing import Packing

OLD_NAMES = {"log_probs": "logs"}  # field: its name in older checkpoints
EVALUATION_BATCH = 64


@dataclass(frozen=True)
class Rollout:
    """Concatenated sequences of prompt and answer; K is the total number of answer tokens."""

    tokens: Tensor  # (N,): all sequences
    ends: Tensor  # (n + 1,): 0, then the end of each sequence in ``tokens``
    prompts: Tensor  # (n,): number of tokens of each prompt
    answers: Tensor  # (n + 1,): offsets: 0, then the end of each answer among the K
    log_probs: Tensor  # (K,): under the policy that sampled them
    values: Tensor  # (K,): predicted returns
    advantages: Tensor  # (K,)
    returns: Tensor  # (K,)

    def __len__(self) -> int:
        return len(self.prompts)


@dataclass(frozen=True, kw_only=True)
class RolloutBatch(PackedTokenBatch):
    """Targets are the answer tokens."""

    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    ptx_tokens: Tensor | None = None  # (B, T + 1): windows of pre-training text
    ptx_documents: Tensor | None = None  # (B, T)

    @property
    def model_inputs(self) -> tuple[Tensor, Packing, Tensor]:
        return self.inputs, self.packing, self.logit_positions


class RoundSampler(Sampler):
    """An epoch of this sampler is a round: ``epochs`` passes over its answers. The rows of a step are the round, the
    number of the batch in it, and the indices of its answers."""

    steady = True

    def __init__(self, size: int, epochs: int, batch_size: int, seed: int):
        super().__init__(seed)
        self.size, self.epochs, self.batch_size = size, epochs, batch_size

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random = np.random.default_rng([self.seed, epoch])
        orders = [random.permutation(self.size) for _ in range(self.epochs)]
        cuts = range(self.batch_size, self.size, self.batch_size)
        batches = [rows for order in orders for rows in np.split(order, cuts)]
        return [np.concatenate([[epoch, number], rows]) for number, rows in enumerate(batches)]


@dataclass
class Rollouts:
    """The training data of a policy. ``sample`` makes the rollout of a round; each batch has ``ptx_windows`` windows of
    pre-training text."""

    # Configuration.
    sample: Callable[[int], Rollout]
    size: int  # answers per round
    epochs: int
    example: Rollout  # one sequence of maximum length
    ptx: Stream | None = None
    ptx_windows: int = 0
    seed: int = 0
    # State: the current round.
    round: int = -1
    rollout: Rollout | None = None
    key: str = ""

    def __len__(self) -> int:
        return self.size

    def sampler(self, spec: TrainSpec) -> RoundSampler:
        return RoundSampler(self.size, self.epochs, spec.batch_size, spec.seed)

    def batch(self, rows: np.ndarray) -> RolloutBatch:
        round_number, batch_number, *chosen = rows.tolist()
        if self.rollout is None or self.round != round_number:
            self.round, self.rollout = round_number, self.sample(round_number)
        batch = batch_of(self.rollout, torch.tensor(chosen))
        if self.ptx is None:
            return batch
        return with_ptx(batch, self.ptx, self.ptx_windows, [self.seed, round_number, batch_number])

    def longest(self) -> RolloutBatch:
        return batch_of(self.example, torch.arange(1))

    def batches(self) -> Iterator[tuple[np.ndarray, RolloutBatch]]:
        """The current round."""
        if self.rollout is not None:
            for rows in torch.arange(len(self.rollout)).split(EVALUATION_BATCH):
                yield rows.numpy(), batch_of(self.rollout, rows)

    def state_dict(self) -> dict[str, Tensor]:
        if self.rollout is None:
            return {}
        return {"round": torch.tensor(self.round)} | {
            each.name: getattr(self.rollout, each.name) for each in fields(Rollout)
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        if "round" in state:
            self.round = int(state["round"])
            names = {each.name: OLD_NAMES.get(each.name, each.name) for each in fields(Rollout)}
            self.rollout = Rollout(**{name: state[name if name in state else old] for name, old in names.items()})


def batch_of(rollout: Rollout, rows: Tensor) -> RolloutBatch:
    """These sequences, packed into one row."""
    sizes, answer_sizes = rollout.ends.diff()[rows], rollout.answers.diff()[rows]
    tokens = rollout.tokens[ranges(rollout.ends[:-1][rows], sizes)]
    in_answers = ranges(rollout.answers[:-1][rows], answer_sizes)
    ends = F.pad(sizes.cumsum(0), (1, 0))
    # The logits for a token are at the position before it.
    logit_positions = ranges(ends[:-1] + rollout.prompts[rows] - 1, answer_sizes)
    per_token: dict[str, Any] = {
        name: getattr(rollout, name)[in_answers] for name in ("log_probs", "values", "advantages", "returns")
    }
    return RolloutBatch(
        tokens[None],
        tokens[logit_positions + 1],
        cu_seqlens=ends.to(torch.int32),
        max_seqlen=int(rollout.ends.diff().max()),  # of the whole round: an upper bound for this batch
        logit_positions=logit_positions,
        **per_token,
    )


def with_ptx(batch: RolloutBatch, ptx: Stream, windows: int, seed: list[int]) -> RolloutBatch:
    """With random windows of pre-training text."""
    starts = max(len(ptx.tokens) - ptx.window, 1)
    drawn = ptx.batch(np.random.default_rng(seed).integers(starts, size=windows))
    # Inputs and targets are the same tokens, shifted by one.
    whole = torch.cat([drawn.inputs, drawn.targets[:, -1:]], dim=1)
    return replace(batch, ptx_tokens=whole, ptx_documents=drawn.documents)


def ranges(starts: Tensor, sizes: Tensor) -> Tensor:
    """The concatenation of ``arange(start, start + size)`` for each start and size."""
    owners = torch.arange(len(sizes)).repeat_interleave(sizes)
    return starts[owners] + torch.arange(len(owners)) - (sizes.cumsum(0) - sizes)[owners]
