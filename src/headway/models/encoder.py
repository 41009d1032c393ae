"""An encoder: every token may look at every other one."""

from torch import Tensor, nn

from headway.models.stack import Stack
from headway.nn.context import Context
from headway.nn.masks import over_keys, real_tokens


class Encoder(nn.Module):
    def __init__(self, embedding: nn.Module, stack: Stack):
        super().__init__()
        self.embedding, self.stack = embedding, stack

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) tokens, the first ``lengths[b]`` of each row real (all, if none are given), to (B, T, D) states."""
        real = None if lengths is None else real_tokens(lengths, tokens.shape[1])
        return self.stack(self.embedding(tokens), Context(real=real, mask=over_keys(real)))
