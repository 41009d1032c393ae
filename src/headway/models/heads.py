"""Heads: from the states of a stack to the logits of the vocabulary."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.parts import choose
from headway.nn.block import LayerNorm
from headway.nn.embedding import Embedding


class TiedHead(nn.Module):
    """Logits by the embedding's own matrix (Press & Wolf 2017, https://arxiv.org/abs/1608.05859)."""

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
    """A tied head after one more layer, as in BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

    def __init__(self, embedding: Embedding, width: int, eps: float = 1e-12, activation: str = "gelu"):
        super().__init__()
        self.activation = choose(ACTIVATIONS, activation, "activation")
        self.inner, self.norm = nn.Linear(width, width), LayerNorm(width, eps)
        self.tied = TiedHead(embedding, bias=True)

    def forward(self, states: Tensor) -> Tensor:
        return self.tied(self.norm(self.activation(self.inner(states))))


def own(embedding: Embedding, width: int) -> nn.Linear:
    """An output matrix that is not tied to the embedding."""
    return nn.Linear(width, embedding.vocabulary, bias=False)


HEADS: dict[str, Callable[..., nn.Module]] = {"tied": TiedHead, "own": own, "transformed": TransformedHead}
