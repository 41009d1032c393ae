"""An encoder-decoder: the decoder's cross attention reads the encoder's states, its memory."""

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
        """Tokens (B, S) and (B, T) to next-token logits (B, T, V), or (N, V) for the N tokens selected by
        ``logit_positions`` (B, T). With ``packings``, source and target are one row of packed sequences each."""
        sources, targets = packings or (None, None)
        memory = self.encoder(source, source_lengths, sources)
        real = None if source_lengths is None else real_tokens(source_lengths, source.shape[1])
        return self.decoder(
            target, memory, real, logit_positions=logit_positions, packing=targets, memory_packing=sources
        )

    def conditioned_on(
        self, source: Tensor, source_lengths: Tensor | None = None, decoder: Any = None
    ) -> "ConditionedDecoder":
        """The decoder (or a faster version of it, ``decoder``), ready to translate these sources."""
        memory = self.encoder(source, source_lengths)
        mask = None if source_lengths is None else over_keys(real_tokens(source_lengths, source.shape[1]))
        return ConditionedDecoder(decoder or self.decoder, memory, mask)


@dataclass(frozen=True)
class ConditionedDecoder:
    """A decoder with an encoded source for each row."""

    decoder: Any
    memory: Tensor
    mask: Tensor | None

    def begin(self, rows: int, room: int) -> State:
        state = self.decoder.begin(rows, room)
        state.memory, state.memory_mask = self.memory, self.mask
        return state

    def step(self, tokens: Tensor, state: State, new: Tensor | None = None) -> tuple[Tensor, State]:
        return self.decoder.step(tokens, state, new)


def source_batch(
    rows: list[list[int]], device: torch.device | None = None, multiple: int = 1
) -> tuple[Tensor, Tensor | None]:
    """Sources padded to a multiple of ``multiple`` tokens, and their lengths; None if nothing was padded."""
    lengths = [len(row) for row in rows]
    longest = max(lengths) + -max(lengths) % multiple
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
    return padded, None if min(lengths) == longest else torch.tensor(lengths, device=device)
