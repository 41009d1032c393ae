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


class OneHot(Embedding):
    def forward(self, tokens: Tensor, there: Tensor | None = None) -> Tensor:
        onehot = F.one_hot(tokens, self.vocabulary).to(self.table.weight.dtype)
        return only(onehot @ self.table.weight * math.sqrt(self.width), there)


class Region(Embedding):
    """Reads the ``before`` tokens before each token, the token, and the ``after`` tokens after it."""

    def __init__(self, vocabulary: int, width: int, before: int = 1, after: int = 1, start: float = 0.01):
        super().__init__(vocabulary, width)
        if before < 0 or after < 0:
            raise Problem(f"before={before} and after={after} count tokens: neither may be negative")
        self.before, self.after = before, after
        self.beside = nn.Embedding(vocabulary, (before + after) * width)
        self.bias = nn.Parameter(torch.zeros(width))
        self.looks_ahead = "after=0" if after else ""
        for table in (self.table, self.beside):
            nn.init.normal_(table.weight, std=start)

    def forward(self, tokens: Tensor, there: Tensor | None = None) -> Tensor:
        total = only(self.table(tokens), there) + self.bias
        beside = only(self.beside(tokens), there).unflatten(-1, (-1, self.width))  # (B, T, neighbours, D)
        offsets = [*range(-self.before, 0), *range(1, self.after + 1)]
        for place, offset in enumerate(offsets):
            total = total + shifted(beside[:, :, place], offset)
        return total.relu()


def only(vectors: Tensor, there: Tensor | None) -> Tensor:
    return vectors if there is None else vectors * there[..., None]


def shifted(x: Tensor, offset: int) -> Tensor:
    """At each place of (B, T, D) what stands ``offset`` places further on, zeros beyond the ends."""
    time = x.shape[1]
    padded = F.pad(x, (0, 0, max(-offset, 0), max(offset, 0)))
    return padded[:, max(offset, 0) : max(offset, 0) + time]


EMBEDDINGS = {"lookup": Embedding, "onehot": OneHot, "region": Region}
