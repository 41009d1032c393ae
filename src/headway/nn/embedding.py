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

from headway.config.errors import Problem
from headway.nn.context import ALONE, Context, refuse_documents


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, width: int, start: float = 1.0, scale: float | None = None):
        """``start`` is the size of the vectors at first, ``scale`` what rows are multiplied by; none: sqrt(D)."""
        super().__init__()
        self.vocabulary, self.width = vocabulary, width
        self.scale = math.sqrt(width) if scale is None else scale
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=start / self.scale)

    def forward(self, tokens: Tensor, there: Tensor | None = None, context: Context = ALONE) -> Tensor:
        return only(self.table(tokens) * self.scale, there)

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor | None:
        """The rows of a larger table that this one has: those of its first tokens."""
        return theirs[: len(ours)] if len(theirs) > len(ours) else None

    def logits(self, states: Tensor) -> Tensor:
        """How well states (..., D) fit each token, by the rows of the tokens themselves."""
        matrix = self.table.weight[: self.vocabulary]
        if not (self.training and states.is_cuda):
            return F.linear(states, matrix)
        # A GPU multiplies matrices several times as fast whose sides are multiples of 8.
        return F.linear(states, F.pad(matrix, (0, 0, 0, -len(matrix) % 8)))[..., : self.vocabulary]


class OneHot(Embedding):
    def forward(self, tokens: Tensor, there: Tensor | None = None, context: Context = ALONE) -> Tensor:
        onehot = F.one_hot(tokens, self.vocabulary).to(self.table.weight.dtype)
        return only(onehot @ self.table.weight * self.scale, there)


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
        self.columns = [before, *range(before), *range(before + 1, before + 1 + after)]
        self.bias = nn.Parameter(torch.zeros(width))
        self.looks_ahead = "after=0" if after else ""
        nn.init.normal_(self.table.weight, std=start)

    def forward(self, tokens: Tensor, there: Tensor | None = None, context: Context = ALONE) -> Tensor:
        refuse_documents(self, context)
        there = torch.ones_like(tokens) if there is None else there.to(tokens.dtype)
        pairs = torch.stack([tokens, there], dim=-1)  # what lies beyond an end is neither a token nor there
        if context.packing is not None:
            beside = context.packing.through(lambda apart, _: self.beside(apart), pairs)
        elif context.state is not None:
            beside = self.joined(context.state.with_recent(self, pairs, self.before, context.new))
        else:
            beside = self.beside(pairs)
        rows, weights = beside.unbind(2)  # (B, T, n) each
        matrices = self.vocabulary * torch.arange(len(self.columns), device=tokens.device)
        total = F.embedding_bag(
            (rows + matrices).flatten(0, 1),
            self.table.weight,
            mode="sum",
            per_sample_weights=weights.to(self.table.weight.dtype).flatten(0, 1),
        )
        return (total.view(*tokens.shape, self.width) + self.bias).relu()

    def resize(self, theirs: Tensor, ours: Tensor) -> None:
        """Its matrices stand below each other: the rows of another size are other tokens."""

    def beside(self, pairs: Tensor) -> Tensor:
        return self.joined(F.pad(pairs, (0, 0, self.before, self.after)))

    def joined(self, around: Tensor) -> Tensor:
        """(B, T + n - 1, 2) -> (B, T, 2, n): each token with those beside it."""
        return around.unfold(1, len(self.columns), 1)[..., self.columns]


def only(vectors: Tensor, there: Tensor | None) -> Tensor:
    return vectors if there is None else vectors * there[..., None]


EMBEDDINGS = {"lookup": Embedding, "onehot": OneHot, "region": Region}
