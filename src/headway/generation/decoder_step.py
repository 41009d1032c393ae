"""The interface of search and sampling to a model: an initial state, and a step at a time."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class DecoderStep(Protocol):
    """A Transformer, a recurrent network, or a hand-written probability tree. For the states, see nn/state."""

    def begin(self, rows: int, room: int) -> Any:
        """The initial state of rows that may grow to ``room`` tokens."""

    def step(self, tokens: Tensor, state: Any, new: Tensor | None = None) -> tuple[Tensor, Any]:
        """The logits (B, V) after the last token of each row (B, T), and the state after it. ``new`` (B,): how many
        of the T tokens of each row are new to the state, the rest being padding; None: all of them."""


def read_prompts(
    decoder: DecoderStep, prompts: Sequence[Sequence[int]], max_new_tokens: int, device: torch.device | None = None
) -> tuple[Tensor, Any]:
    """The logits after each prompt, and the state. Prompts are padded at the end."""
    lengths = [len(prompt) for prompt in prompts]
    longest = max(lengths)
    padded = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=device)
    new = None if min(lengths) == longest else torch.tensor(lengths, device=device)
    return decoder.step(padded, decoder.begin(len(prompts), longest + max_new_tokens), new)
