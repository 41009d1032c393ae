"""Models that learn from texts without labels; what is kept of them for other tasks is their encoder.

All of them read one row of sequences; see nn/packing.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.models.encoder import Encoder
from headway.nn.packing import Packing


class MaskedModel(nn.Module):
    """Finds tokens that were hidden."""

    def __init__(self, encoder: Encoder, head: nn.Module):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, tokens: Tensor, packing: Packing, places: Tensor) -> Tensor:
        """(1, N) tokens to (K, V) scores of what stood at the K places."""
        return self.head(self.encoder(tokens, packing=packing)[0, places])


class NextModel(MaskedModel):
    """Besides, says from the first token of each sequence whether its second part is the next of its first."""

    def __init__(self, encoder: Encoder, head: nn.Module, width: int):
        super().__init__(encoder, head)
        self.is_next = nn.Linear(width, 2)

    def both(self, tokens: Tensor, packing: Packing, places: Tensor) -> tuple[Tensor, Tensor]:
        """The (K, V) scores, and (n, 2) of the sequences."""
        states = self.encoder(tokens, packing=packing)[0]
        return self.head(states[places]), self.is_next(states[packing.cu_seqlens[:-1].long()])


class Detected(NamedTuple):
    logits: Tensor  # (K, V) of the generator, for what stood at the places
    real: Tensor  # (N,) scores of the detector, for whether a token is the one that stood there
    is_real: Tensor  # (N,) whether it is


class Detector(nn.Module):
    """A small model fills in what was hidden, and the encoder says of every token whether it is the original
    (Clark et al. 2020, https://arxiv.org/abs/2003.10555)."""

    def __init__(self, encoder: Encoder, generator: MaskedModel, width: int):
        super().__init__()
        self.encoder, self.generator = encoder, generator
        self.is_real = nn.Linear(width, 1)

    def forward(self, tokens: Tensor, packing: Packing, places: Tensor, originals: Tensor) -> Detected:
        logits = self.generator(tokens, packing, places)
        # To measure, the same chances each time.
        chances = None if self.training else torch.Generator(logits.device).manual_seed(0)
        guesses = logits.detach().float().softmax(dim=-1).multinomial(1, generator=chances)[:, 0]
        filled = tokens.index_copy(1, places, guesses[None])
        is_real = torch.ones_like(tokens[0], dtype=torch.bool).index_copy(0, places, guesses == originals)
        return Detected(logits, self.is_real(self.encoder(filled, packing=packing))[0, :, 0], is_real)
