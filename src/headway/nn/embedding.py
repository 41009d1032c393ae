"""From tokens to vectors.

- lookup: the token's row of a matrix
- onehot: the token's one-hot vector times that matrix; the same function with the same gradient, since the row is all
  that the product leaves over, but slower
- region: relu of the sum of rows of several matrices, one for the token and one for each of its neighbours: a
  convolution over one-hot vectors (Johnson & Zhang 2015, https://arxiv.org/abs/1412.1058)

The matrix of lookup starts with a mean square of 1/D and its rows are multiplied by sqrt(D) (Vaswani et al. 2017,
section 3.4): so the vectors start at size 1, and the same matrix, tied, serves as the last one of a model of tokens.

``there`` (B, T) is False at tokens that are not there: padding, and what token dropout takes away. They are zeros.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.errors import Problem


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, width: int, start: float = 1.0):
        """``start`` is the size of the vectors at first."""
        super().__init__()
        self.vocabulary, self.width = vocabulary, width
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=start * width**-0.5)

    def forward(self, tokens: Tensor, there: Tensor | None = None) -> Tensor:
        return only(self.table(tokens) * math.sqrt(self.width), there)

    def scores(self, states: Tensor) -> Tensor:
        """How well states (..., D) fit each token, by the rows of the tokens themselves."""
        return F.linear(states, self.table.weight[: self.vocabulary])


class OneHot(Embedding):
    def forward(self, tokens: Tensor, there: Tensor | None = None) -> Tensor:
        onehot = F.one_hot(tokens, self.vocabulary).to(self.table.weight.dtype)
        return only(onehot @ self.table.weight * math.sqrt(self.width), there)


class Region(Embedding):
    """Reads the ``before`` tokens before each token, the token, and the ``after`` tokens after it.

    The matrices stand below each other in one table, the token's own first. Its rows are looked up and added in one
    call, so that nothing of the size of all of them is ever written.
    """

    def __init__(self, vocabulary: int, width: int, before: int = 1, after: int = 1, start: float = 0.01):
        if before < 0 or after < 0:
            raise Problem(f"before={before} and after={after} count tokens: neither may be negative")
        super().__init__((before + 1 + after) * vocabulary, width)
        self.vocabulary, self.before, self.after = vocabulary, before, after
        self.offsets = [0, *range(-before, 0), *range(1, after + 1)]
        self.bias = nn.Parameter(torch.zeros(width))
        self.looks_ahead = "after=0" if after else ""
        nn.init.normal_(self.table.weight, std=start)

    def forward(self, tokens: Tensor, there: Tensor | None = None) -> Tensor:
        if there is None:
            there = torch.ones_like(tokens, dtype=torch.bool)
        around = [self.shifted(tokens, offset) + place * self.vocabulary for place, offset in enumerate(self.offsets)]
        weights = [self.shifted(there.to(self.table.weight.dtype), offset) for offset in self.offsets]
        total = F.embedding_bag(
            torch.stack(around, dim=-1).flatten(0, 1),
            self.table.weight,
            mode="sum",
            per_sample_weights=torch.stack(weights, dim=-1).flatten(0, 1),
        )
        return (total.view(*tokens.shape, self.width) + self.bias).relu()

    def shifted(self, x: Tensor, offset: int) -> Tensor:
        """At each place of (B, T) what stands ``offset`` places further on, zeros beyond the ends."""
        padded = F.pad(x, (self.before, self.after))
        return padded[:, self.before + offset : self.before + offset + x.shape[1]]


def only(vectors: Tensor, there: Tensor | None) -> Tensor:
    return vectors if there is None else vectors * there[..., None]


EMBEDDINGS = {"lookup": Embedding, "onehot": OneHot, "region": Region}
