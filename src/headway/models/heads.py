"""What stands on a stack: a class for the sequence, or a score for every token of the vocabulary."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.parts import choose
from headway.models.encoder import Encoder
from headway.nn.dropout import drop
from headway.nn.embedding import Embedding
from headway.nn.masks import real_tokens
from headway.nn.norms import LayerNorm
from headway.nn.packing import Packing


class Classifier(nn.Module):
    def __init__(self, encoder: Encoder, pooling: nn.Module, head: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.encoder, self.pooling, self.head, self.dropout = encoder, pooling, head, dropout

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """(B, T) tokens to (B, C) scores of the classes; with a ``packing``, of each sequence in the one row."""
        states = self.encoder(tokens, lengths, packing)
        real = None if lengths is None else real_tokens(lengths, tokens.shape[1])
        if packing is not None:
            states, real = packing.pad(states), packing.real
        return self.head(drop(self.pooling(states, real), self.dropout, self.training))


class TiedHead(nn.Module):
    """Scores by the embedding's own matrix (Press & Wolf 2017, https://arxiv.org/abs/1608.05859)."""

    def __init__(self, embedding: Embedding, bias: bool = False):
        super().__init__()
        self.embedding = embedding
        self.bias = nn.Parameter(torch.zeros(embedding.vocabulary)) if bias else None

    def forward(self, states: Tensor) -> Tensor:
        logits = self.embedding.logits(states)
        return logits if self.bias is None else logits + self.bias


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "relu": torch.relu,
    "silu": F.silu,
}


class TransformedHead(nn.Module):
    """The same after one more layer, as BERT has it (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

    def __init__(self, embedding: Embedding, width: int, eps: float = 1e-12, activation: str = "gelu"):
        super().__init__()
        self.activation = choose(ACTIVATIONS, activation, "activation")
        self.inner, self.norm, self.tied = (
            nn.Linear(width, width),
            LayerNorm(width, eps),
            TiedHead(embedding, bias=True),
        )

    def forward(self, states: Tensor) -> Tensor:
        return self.tied(self.norm(self.activation(self.inner(states))))


def own(embedding: Embedding, width: int) -> nn.Linear:
    """A matrix of its own."""
    return nn.Linear(width, embedding.vocabulary, bias=False)


HEADS: dict[str, Callable[..., nn.Module]] = {"tied": TiedHead, "own": own, "transformed": TransformedHead}
