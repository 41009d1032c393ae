"""Rollouts: batches that a policy writes itself. A round begins with answers to prompts; it is learned from in several
passes, and then the next one is written.

What a round is made of follows from the seed, its number, and the weights at its beginning. So that a run can go on in
the middle of one, it travels in the checkpoints.
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

WERE = {"log_probs": "logs"}  # names in checkpoints that were written before
MEASURED = 64  # answers at once


@dataclass(frozen=True)
class Rollout:
    """Prompts with the answers that were written to them, one behind another; K counts the tokens of the answers."""

    tokens: Tensor  # (N,): of all sequences
    ends: Tensor  # (n + 1,): 0, and where each sequence ends
    prompts: Tensor  # (n,): how many tokens of each are its prompt
    answers: Tensor  # (n + 1,): 0, and where the answer of each ends among the K
    log_probs: Tensor  # (K,): how likely each token was, as a logarithm
    values: Tensor  # (K,): what was expected from there on
    advantages: Tensor  # (K,): how much better it went
    returns: Tensor  # (K,): what should have been expected

    def __len__(self) -> int:
        return len(self.prompts)


@dataclass(frozen=True, kw_only=True)
class RolloutBatch(PackedTokenBatch):
    """Targets are the tokens of the answers."""

    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    text: Tensor | None = None  # (B, T + 1) tokens of another text, which should stay as likely as it was
    text_documents: Tensor | None = None  # (B, T)

    @property
    def read(self) -> tuple[Tensor, Packing, Tensor]:
        """What a policy reads."""
        return self.inputs, self.packing, self.logit_positions


class RolloutBatches(Sampler):
    """The rows of a step: the number of its round, its own number there, and which of the answers."""

    def __init__(self, size: int, passes: int, batch: int, seed: int):
        super().__init__(seed)
        self.size, self.passes, self.batch = size, passes, batch

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        random = np.random.default_rng([self.seed, epoch])
        orders = [random.permutation(self.size) for _ in range(self.passes)]
        cuts = range(self.batch, self.size, self.batch)
        batches = [rows for order in orders for rows in np.split(order, cuts)]
        return [np.concatenate([[epoch, place], rows]) for place, rows in enumerate(batches)]


@dataclass
class Rollouts:
    """To train on. ``write`` gives the rollout of a round; ``text`` is mixed in, so many windows in each batch."""

    write: Callable[[int], Rollout]
    size: int  # answers in a round
    passes: int
    example: Rollout  # of one sequence as long as any
    text: Stream | None = None
    windows: int = 0
    seed: int = 0
    round: int = -1
    rollout: Rollout | None = None
    key: str = ""

    def __len__(self) -> int:
        return self.size

    def sampler(self, spec: TrainSpec) -> RolloutBatches:
        return RolloutBatches(self.size, self.passes, spec.batch_size, spec.seed)

    def batch(self, rows: np.ndarray) -> RolloutBatch:
        number, place, *chosen = rows.tolist()
        if self.rollout is None or self.round != number:
            self.round, self.rollout = number, self.write(number)
        batch = taken(self.rollout, torch.tensor(chosen))
        return batch if self.text is None else with_text(batch, self.text, self.windows, [self.seed, number, place])

    def longest(self) -> RolloutBatch:
        return taken(self.example, torch.arange(1))

    def batches(self) -> Iterator[tuple[np.ndarray, RolloutBatch]]:
        """What was written last."""
        if self.rollout is not None:
            for rows in torch.arange(len(self.rollout)).split(MEASURED):
                yield rows.numpy(), taken(self.rollout, rows)

    def state_dict(self) -> dict[str, Tensor]:
        if self.rollout is None:
            return {}
        return {"round": torch.tensor(self.round)} | {
            each.name: getattr(self.rollout, each.name) for each in fields(Rollout)
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        if "round" in state:
            self.round = int(state["round"])
            names = {each.name: WERE.get(each.name, each.name) for each in fields(Rollout)}
            self.rollout = Rollout(**{name: state[name if name in state else old] for name, old in names.items()})


def taken(rollout: Rollout, rows: Tensor) -> RolloutBatch:
    """Some of the sequences, in one row."""
    sizes, answers = rollout.ends.diff()[rows], rollout.answers.diff()[rows]
    tokens = rollout.tokens[stretches(rollout.ends[:-1][rows], sizes)]
    of_answers = stretches(rollout.answers[:-1][rows], answers)
    ends = F.pad(sizes.cumsum(0), (1, 0))
    # The positions before each token of an answer.
    logit_positions = stretches(ends[:-1] + rollout.prompts[rows] - 1, answers)
    sides: dict[str, Any] = {
        name: getattr(rollout, name)[of_answers] for name in ("log_probs", "values", "advantages", "returns")
    }
    max_seqlen = int(rollout.ends.diff().max())
    return RolloutBatch(
        tokens[None],
        tokens[logit_positions + 1],
        cu_seqlens=ends.to(torch.int32),
        max_seqlen=max_seqlen,
        logit_positions=logit_positions,
        **sides,
    )


def with_text(batch: RolloutBatch, text: Stream, windows: int, seed: list[int]) -> RolloutBatch:
    last = max(len(text.tokens) - text.window, 1)
    drawn = text.batch(np.random.default_rng(seed).integers(last, size=windows))
    whole = torch.cat([drawn.inputs, drawn.targets[:, -1:]], dim=1)
    return replace(batch, text=whole, text_documents=drawn.documents)


def stretches(starts: Tensor, sizes: Tensor) -> Tensor:
    """``starts[0], starts[0] + 1, ...``, as many as the first of the sizes says, and so on."""
    owners = torch.arange(len(sizes)).repeat_interleave(sizes)
    return starts[owners] + torch.arange(len(owners)) - (sizes.cumsum(0) - sizes)[owners]
