"""A policy: a decoder, its frozen reference, and a value head."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor, nn

from headway.models.decoder import Decoder
from headway.nn.lora import lora_disabled
from headway.nn.packing import Packing


class PolicyWithReference(nn.Module):
    """``reference`` keeps the decoder's initial weights. If it is None, the decoder has LoRA adapters, and without them
    it is the reference."""

    def __init__(self, decoder: Decoder, reference: Decoder | None):
        super().__init__()
        self.decoder, self.reference = decoder, None if reference is None else reference.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """The reference stays in evaluation mode, without dropout."""
        super().train(mode)
        if self.reference is not None:
            self.reference.eval()
        return self

    @contextmanager
    def as_reference(self) -> Iterator[Decoder]:
        """The decoder with its initial weights."""
        if self.reference is not None:
            yield self.reference
        else:
            training = self.decoder.training
            with lora_disabled(self.decoder):
                yield self.decoder.eval()
            self.decoder.train(training)

    @torch.no_grad()
    def reference_logits(self, tokens: Tensor, packing: Packing, positions: Tensor) -> Tensor:
        """(K, V): of the reference, at these positions of packed sequences."""
        with self.as_reference() as reference:
            logits: Tensor = reference.head(reference.read(tokens, packing)[0, positions])
        return logits

    def copy_reference(self) -> None:
        """Set the reference to the decoder's current weights."""
        if self.reference is not None:
            self.reference.load_state_dict(self.decoder.state_dict())

    def forward(self, tokens: Tensor, packing: Packing, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (K, V) at these positions; the values (K,) are zero."""
        logits = self.decoder.head(self.decoder.read(tokens, packing)[0, positions])
        return logits, logits.new_zeros(len(positions))

    def both(self, tokens: Tensor, packing: Packing, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the decoder and of the reference."""
        return self(tokens, packing, positions)[0], self.reference_logits(tokens, packing, positions)


class Policy(PolicyWithReference):
    def __init__(self, decoder: Decoder, reference: Decoder | None, width: int):
        super().__init__(decoder, reference)
        self.value = nn.Linear(width, 1)
        nn.init.zeros_(self.value.weight)  # initial values are zero
        nn.init.zeros_(self.value.bias)

    def forward(self, tokens: Tensor, packing: Packing, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (K, V) and values (K,) at these positions."""
        states = self.decoder.read(tokens, packing)[0, positions]
        return self.decoder.head(states), self.value(states)[:, 0]
