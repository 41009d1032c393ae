"""An encoder: every token may look at every other one; or, if it is causal, at those before it."""

from torch import Tensor, nn

from headway.models.stack import Stack
from headway.nn.context import Context, refuse_looking_ahead
from headway.nn.dropout import drop_tokens
from headway.nn.embedding import Embedding
from headway.nn.masks import over_keys, real_tokens
from headway.nn.packing import Packing


class Encoder(nn.Module):
    def __init__(self, embedding: Embedding, stack: Stack, token_dropout: float = 0.0, causal: bool = False):
        super().__init__()
        self.embedding, self.stack, self.token_dropout, self.causal = embedding, stack, token_dropout, causal
        if causal:
            refuse_looking_ahead(self)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """(B, T) tokens, the first ``lengths[b]`` of each row real (all, if none are given), to (B, T, D) states. With
        a ``packing``, there is one row of sequences."""
        real = None if lengths is None else real_tokens(lengths, tokens.shape[1])
        there = drop_tokens(real, tokens, self.token_dropout, self.training)
        context = Context(real=real, mask=over_keys(real), causal=self.causal, packing=packing)
        return self.stack(self.embedding(tokens, there, context), context)
