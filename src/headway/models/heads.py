"""Heads: from the states of a stack to the logits of the vocabulary."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.parts import choose, parse
from headway.nn.block import LayerNorm
from headway.nn.collectives import Axis
from headway.nn.cutting import Cut
from headway.nn.embedding import Embedding, with_means
from headway.nn.vocabulary import PaddedCut, TableShare

RARE = 1e-7  # the probability, at most, of all tokens that were added to a vocabulary, until they are trained


class Head(nn.Module):
    """What heads have in common when tokens are added to the vocabulary of a trained model."""

    bias: Any  # (V,), or None
    extend = staticmethod(with_means)

    def shift(self, new: int, offset: float) -> None:
        """Change the bias of the last tokens."""
        if self.bias is not None:
            with torch.no_grad():
                self.bias[-new:] += offset


def withheld(new: int) -> float:
    """A bias that leaves new tokens next to no probability, so that all others keep theirs: their logits are means of
    others, and a mean is at most the largest one, whatever the state."""
    return math.log(RARE / new)


class TiedHead(Head):
    """Logits by the embedding's own matrix (Press & Wolf 2017, https://arxiv.org/abs/1608.05859)."""

    def __init__(self, embedding: Embedding, bias: bool = False):
        super().__init__()
        self.embedding = embedding
        self.bias = nn.Parameter(torch.zeros(embedding.vocabulary)) if bias else None

    def forward(self, states: Tensor) -> Tensor:
        return self.embedding.logits(states, self.bias)


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


class OwnHead(nn.Linear, Head):
    """An output matrix that is not tied to the embedding."""

    def __init__(self, embedding: Embedding, width: int, bias: bool = False):
        super().__init__(width, embedding.vocabulary, bias)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self.share: TableShare | None = None

    @property
    def cut_tensors(self) -> dict[str, Cut]:
        return {"weight": PaddedCut(0, (self.out_features,))}

    def narrow(self, axis: Axis) -> None:
        self.share = TableShare(axis, (self.out_features,))

    def forward(self, states: Tensor) -> Any:
        if self.share is None:
            return super().forward(states)
        return self.share.logits(states, self.weight, self.bias, self.training)


HEADS: dict[str, Callable[..., nn.Module]] = {"tied": TiedHead, "own": OwnHead, "transformed": TransformedHead}


def with_bias(text: str) -> str:
    """The head that a recipe names, with a bias."""
    name, options = parse(text, "model.head")
    if "bias" not in inspect.signature(choose(HEADS, name, "model.head")).parameters:
        return text
    return f"{name}({', '.join(f'{option}={value!r}' for option, value in (options | {'bias': True}).items())})"
