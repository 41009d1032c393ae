"""A decoder: a token may look at itself and earlier ones, and, if its blocks have cross attention, at a memory."""

from torch import Tensor, nn

from headway.models.stack import Stack
from headway.nn.context import Context, refuse_looking_ahead
from headway.nn.masks import over_keys


class Decoder(nn.Module):
    def __init__(self, embedding: nn.Module, stack: Stack, head: nn.Module):
        super().__init__()
        self.embedding, self.stack, self.head = embedding, stack, head
        refuse_looking_ahead(self)

    def forward(self, tokens: Tensor, memory: Tensor | None = None, memory_real: Tensor | None = None) -> Tensor:
        """(B, T) tokens to (B, T, V) scores of the token that comes next.

        Padding at the end of a row needs no mask: no earlier token may look at it.
        """
        context = Context(causal=True, memory=memory, memory_mask=over_keys(memory_real))
        return self.head(self.stack(self.embedding(tokens), context))
