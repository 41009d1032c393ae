"""What searching and sampling see of a model: where it begins, and a step at a time."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Memory(Protocol):
    """What a model remembers of the rows; see nn/state."""

    def expand_beams(self, width: int) -> Any:
        """So many rows go on from each of those there are."""

    def reorder(self, rows: Tensor) -> Any:
        """Each row goes on from another one that began with the same prompt."""

    def select(self, rows: Tensor) -> Any:
        """A memory of its own for these rows."""


class DecoderStep(Protocol):
    """A Transformer, a recurrent network, or a tree of probabilities that somebody wrote down."""

    def begin(self, rows: int, room: int) -> Any:
        """The memory of rows that have no tokens yet and may come to have ``room`` of them."""

    def step(self, tokens: Tensor, state: Any, new: Tensor | None = None) -> tuple[Tensor, Any]:
        """The scores (B, V) of what follows the last of the tokens (B, T), and the memory after them. ``new`` (B,) says
        how many of the tokens of a row are real, if not all are."""


def read_prompts(
    steps: DecoderStep, prompts: Sequence[Sequence[int]], room: int, device: torch.device | None = None
) -> tuple[Tensor, Any]:
    """The scores after each prompt, and the memory; prompts of different lengths are padded behind."""
    lengths = [len(prompt) for prompt in prompts]
    longest = max(lengths)
    padded = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=device)
    new = None if min(lengths) == longest else torch.tensor(lengths, device=device)
    return steps.step(padded, steps.begin(len(prompts), longest + room), new)
