"""Models for pre-training on unlabelled text; other tasks keep their encoder.

All of them read one row of packed sequences; see nn/packing.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.models.encoder import Encoder
from headway.nn.packing import Packing
from headway.objectives.likelihood import LogitsInShares


class MaskedModel(nn.Module):
    """Masked language model: predicts masked tokens."""

    def __init__(self, encoder: Encoder, head: nn.Module):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, tokens: Tensor, packing: Packing, positions: Tensor) -> Tensor:
        """Tokens (1, N) to the logits (K, V) of the original tokens at K positions."""
        return self.head(self.encoder(tokens, packing=packing)[0, positions])


class NextModel(MaskedModel):
    """Also predicts, from the first token of each sequence, whether its second part follows its first."""

    def __init__(self, encoder: Encoder, head: nn.Module, width: int):
        super().__init__(encoder, head)
        self.is_next = nn.Linear(width, 2)

    def both(self, tokens: Tensor, packing: Packing, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Token logits (K, V), and next-part logits (n, 2) for each sequence."""
        states = self.encoder(tokens, packing=packing)[0]
        return self.head(states[positions]), self.is_next(states[packing.cu_seqlens[:-1].long()])


class Detected(NamedTuple):
    logits: Tensor  # (K, V) of the generator, for the original tokens
    real: Tensor  # (N,) logits of the discriminator, that a token is the original
    is_real: Tensor  # (N,) whether it is


class Detector(nn.Module):
    """ELECTRA: a small generator fills in masked tokens, and the encoder detects which tokens were replaced
    (Clark et al. 2020, https://arxiv.org/abs/2003.10555)."""

    def __init__(self, encoder: Encoder, generator: MaskedModel, width: int):
        super().__init__()
        self.encoder, self.generator = encoder, generator
        self.is_real = nn.Linear(width, 1)

    def forward(self, tokens: Tensor, packing: Packing, positions: Tensor, originals: Tensor) -> Detected:
        logits = self.generator(tokens, packing, positions)
        # In evaluation, always the same samples.
        random = None if self.training else torch.Generator(logits.device).manual_seed(0)
        logits = logits.whole() if isinstance(logits, LogitsInShares) else logits
        samples = logits.detach().float().softmax(dim=-1).multinomial(1, generator=random)[:, 0]
        filled = tokens.index_copy(1, positions, samples[None])
        is_real = torch.ones_like(tokens[0], dtype=torch.bool).index_copy(0, positions, samples == originals)
        return Detected(logits, self.is_real(self.encoder(filled, packing=packing))[0, :, 0], is_real)
