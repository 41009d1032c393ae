"""A policy: a decoder that writes, what it was before it began to learn, and what it expects of what it writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor, nn

from headway.models.decoder import Decoder
from headway.nn.lora import without_adapters
from headway.nn.packing import Packing


class PolicyWithReference(nn.Module):
    """``reference`` begins with the same weights as the decoder, and keeps them; none: the decoder has adapters, and is
    its own reference without them."""

    def __init__(self, decoder: Decoder, reference: Decoder | None):
        super().__init__()
        self.decoder, self.reference = decoder, None if reference is None else reference.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """The reference learns nothing, and nothing of it is dropped."""
        super().train(mode)
        if self.reference is not None:
            self.reference.eval()
        return self

    @contextmanager
    def as_it_was(self) -> Iterator[Decoder]:
        """The decoder at the start."""
        if self.reference is not None:
            yield self.reference
        else:
            training = self.decoder.training
            with without_adapters(self.decoder):
                yield self.decoder.eval()
            self.decoder.train(training)

    @torch.no_grad()
    def reference_logits(self, tokens: Tensor, packing: Packing, places: Tensor) -> Tensor:
        """The scores (K, V) that the reference gives to what comes next at these places of one row of sequences."""
        with self.as_it_was() as reference:
            logits: Tensor = reference.head(reference.read(tokens, packing)[0, places])
        return logits

    def copy_reference(self) -> None:
        """Start the reference where the decoder is."""
        if self.reference is not None:
            self.reference.load_state_dict(self.decoder.state_dict())

    def forward(self, tokens: Tensor, packing: Packing, places: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's; nothing is expected."""
        logits = self.decoder.head(self.decoder.read(tokens, packing)[0, places])
        return logits, logits.new_zeros(len(places))

    def both(self, tokens: Tensor, packing: Packing, places: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's, and the reference's."""
        return self(tokens, packing, places)[0], self.reference_logits(tokens, packing, places)


class Policy(PolicyWithReference):
    def __init__(self, decoder: Decoder, reference: Decoder | None, width: int):
        super().__init__(decoder, reference)
        self.value = nn.Linear(width, 1)
        nn.init.zeros_(self.value.weight)  # at first nothing is expected
        nn.init.zeros_(self.value.bias)

    def forward(self, tokens: Tensor, packing: Packing, places: Tensor) -> tuple[Tensor, Tensor]:
        """At these places: the scores (K, V) of what may come next, and the reward (K,) that is expected."""
        states = self.decoder.read(tokens, packing)[0, places]
        return self.decoder.head(states), self.value(states)[:, 0]
