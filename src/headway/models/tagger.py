"""A tagger: an encoder of tokens, of which the first one of each word gets a tag."""

from typing import Any

import torch
from torch import Tensor, nn

from headway.models.encoder import Encoder
from headway.nn.crf import LinearTags
from headway.nn.dropout import drop


class Tagger(nn.Module):
    def __init__(self, encoder: Encoder, characters: nn.Module | None, head: LinearTags, dropout: float = 0.0):
        super().__init__()
        self.encoder, self.characters, self.head, self.dropout = encoder, characters, head, dropout

    def forward(self, *inputs: Any) -> Tensor:
        """The emissions (B, W, C) of the words' tags."""
        return self.head(drop(self.states(*inputs), self.dropout, self.training))

    def states(
        self,
        tokens: Tensor,
        lengths: Tensor | None,
        firsts: Tensor,
        spellings: Tensor | None = None,
        spelled: Tensor | None = None,
    ) -> Tensor:
        """(B, W, D): of the words. ``firsts`` (B, W) are the places of their first tokens; ``spellings`` (U, L) are the
        characters of different words, and ``spelled`` (B, W) says which of them each word is."""
        added = None
        if self.characters is not None and spellings is not None and spelled is not None:
            added = self.by_characters(tokens, firsts, self.characters(spellings)[spelled])
        states = self.encoder(tokens, lengths, added=added)
        return states.gather(1, firsts[..., None].expand(-1, -1, states.shape[2]))

    def by_characters(self, tokens: Tensor, firsts: Tensor, vectors: Tensor) -> Tensor:
        """(B, T, D): the vectors of the words, at their first tokens. Words are in order: only the first one of a row,
        and padding, can be at place 0."""
        is_real = (firsts > 0) | (torch.arange(firsts.shape[1], device=firsts.device) == 0)
        index = firsts[..., None].expand_as(vectors)
        empty = vectors.new_zeros(*tokens.shape, vectors.shape[2])
        return empty.scatter_add(1, index, vectors * is_real[..., None])
