"""An encoder-decoder: the encoder's states are the memory that the decoder's cross attention looks at."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.decoder import Decoder
from headway.models.encoder import Encoder
from headway.nn.masks import over_keys, real_tokens
from headway.nn.packing import Packing
from headway.nn.state import State


class EncoderDecoder(nn.Module):
    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_lengths: Tensor | None = None,
        logit_positions: Tensor | None = None,
        packings: tuple[Packing, Packing] | None = None,
    ) -> Tensor:
        """(B, S) and (B, T) tokens to (B, T, V) scores of the target token that comes next; or to (N, V), of the N
        tokens that ``wanted`` (B, T) says True of. With ``packings``, each is one row of sequences."""
        sources, targets = packings or (None, None)
        memory = self.encoder(source, source_lengths, sources)
        real = None if source_lengths is None else real_tokens(source_lengths, source.shape[1])
        return self.decoder(
            target, memory, real, logit_positions=logit_positions, packing=targets, memory_packing=sources
        )

    def given(self, source: Tensor, source_lengths: Tensor | None = None, steps: Any = None) -> "Given":
        """The decoder, or ``steps`` made of it, as what translates these sources."""
        memory = self.encoder(source, source_lengths)
        mask = None if source_lengths is None else over_keys(real_tokens(source_lengths, source.shape[1]))
        return Given(steps or self.decoder, memory, mask)


@dataclass(frozen=True)
class Given:
    """A decoder's steps with a source for each row in their memory."""

    steps: Any
    memory: Tensor
    mask: Tensor | None

    def begin(self, rows: int, room: int) -> State:
        state = self.steps.begin(rows, room)
        state.memory, state.memory_mask = self.memory, self.mask
        return state

    def step(self, tokens: Tensor, state: State, new: Tensor | None = None) -> tuple[Tensor, State]:
        return self.steps.step(tokens, state, new)


def source_batch(
    rows: list[list[int]], device: torch.device | None = None, multiple: int = 1
) -> tuple[Tensor, Tensor | None]:
    """Sources of different lengths, padded to a multiple of so many tokens, with their lengths; None: they are all the
    same."""
    lengths = [len(row) for row in rows]
    longest = max(lengths) + -max(lengths) % multiple
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
    return padded, None if min(lengths) == longest else torch.tensor(lengths, device=device)
