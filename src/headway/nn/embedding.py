"""Embeddings: from tokens to vectors.

- lookup: the token's row of a matrix
- onehot: the token's one-hot vector times that matrix; the same function with the same gradient, but slower
- region: relu of a sum of rows of several matrices, one for the token and one for each of its neighbours: a
  convolution over one-hot vectors (Johnson & Zhang 2015, https://arxiv.org/abs/1412.1058)

The lookup matrix is initialised with variance 1/D and its rows are multiplied by sqrt(D) (Vaswani et al. 2017,
section 3.4): vectors start with variance 1, and the same matrix can be tied to the output layer.

``kept`` (B, T) is False for padding and for tokens removed by token dropout; their vectors are zeros.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.errors import Problem
from headway.nn.context import NO_CONTEXT, Context, refuse_documents


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, width: int, start: float = 1.0, scale: float | None = None):
        """``start`` is the initial standard deviation of the vectors, ``scale`` the factor on rows; None: sqrt(D)."""
        super().__init__()
        self.vocabulary, self.width = vocabulary, width
        self.scale = math.sqrt(width) if scale is None else scale
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=start / self.scale)

    def forward(self, tokens: Tensor, kept: Tensor | None = None, context: Context = NO_CONTEXT) -> Tensor:
        return zero_dropped(self.table(tokens) * self.scale, kept)

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor | None:
        """From a larger table, the rows of the tokens that this one has: the first ones."""
        return theirs[: len(ours)] if len(theirs) > len(ours) else None

    def extend(self, theirs: Tensor, spelled: Sequence[Sequence[int]]) -> Tensor:
        """A table of fewer tokens, with a row for each new one."""
        return with_means(theirs, spelled)

    def logits(self, states: Tensor) -> Tensor:
        """Output logits of states (..., D), with the embedding matrix as output matrix (tied weights)."""
        matrix = self.table.weight[: self.vocabulary]
        if not (self.training and states.is_cuda):
            return F.linear(states, matrix)
        # A GPU multiplies matrices several times faster if their sides are multiples of 8.
        return F.linear(states, F.pad(matrix, (0, 0, 0, -len(matrix) % 8)))[..., : self.vocabulary]


class OneHot(Embedding):
    def forward(self, tokens: Tensor, kept: Tensor | None = None, context: Context = NO_CONTEXT) -> Tensor:
        onehot = F.one_hot(tokens, self.vocabulary).to(self.table.weight.dtype)
        return zero_dropped(onehot @ self.table.weight * self.scale, kept)


class Region(Embedding):
    """Reads each token with the ``before`` tokens before it and the ``after`` tokens after it.

    The matrices are stacked in one table, the token's own first. One embedding_bag call looks up and sums the rows, so
    that the rows themselves are never materialised.
    """

    def __init__(self, vocabulary: int, width: int, before: int = 1, after: int = 1, start: float = 0.01):
        if before < 0 or after < 0:
            raise Problem(f"before={before} and after={after} are numbers of tokens: neither may be negative")
        super().__init__((before + 1 + after) * vocabulary, width)
        self.vocabulary, self.before, self.after = vocabulary, before, after
        self.columns = [before, *range(before), *range(before + 1, before + 1 + after)]
        self.bias = nn.Parameter(torch.zeros(width))
        self.looks_ahead = "after=0" if after else ""
        nn.init.normal_(self.table.weight, std=start)

    def forward(self, tokens: Tensor, kept: Tensor | None = None, context: Context = NO_CONTEXT) -> Tensor:
        refuse_documents(self, context)
        kept = torch.ones_like(tokens) if kept is None else kept.to(tokens.dtype)
        pairs = torch.stack([tokens, kept], dim=-1)  # zero padding beyond the ends counts as not kept
        if context.packing is not None:
            windows = context.packing.apply_padded(lambda padded, _: self.padded_windows(padded), pairs)
        elif context.state is not None:
            windows = self.windows(context.state.with_history(self, pairs, self.before, context.new))
        else:
            windows = self.padded_windows(pairs)
        rows, weights = windows.unbind(2)  # (B, T, n) each
        matrices = self.vocabulary * torch.arange(len(self.columns), device=tokens.device)
        total = F.embedding_bag(
            (rows + matrices).flatten(0, 1),
            self.table.weight,
            mode="sum",
            per_sample_weights=weights.to(self.table.weight.dtype).flatten(0, 1),
        )
        return (total.view(*tokens.shape, self.width) + self.bias).relu()

    def resize(self, theirs: Tensor, ours: Tensor) -> None:
        """None: in a stacked table of another size, the same rows belong to other tokens."""

    def extend(self, theirs: Tensor, spelled: Sequence[Sequence[int]]) -> Tensor:
        return torch.cat([with_means(own, spelled) for own in theirs.chunk(len(self.columns))])

    def padded_windows(self, pairs: Tensor) -> Tensor:
        return self.windows(F.pad(pairs, (0, 0, self.before, self.after)))

    def windows(self, padded: Tensor) -> Tensor:
        """(B, T + n - 1, 2) -> (B, T, 2, n): each token with its neighbours."""
        return padded.unfold(1, len(self.columns), 1)[..., self.columns]


def with_means(rows: Tensor, spelled: Sequence[Sequence[int]]) -> Tensor:
    """The rows of tokens, and for each new one the mean of those of the tokens that spelled it."""
    return torch.cat([rows, *(rows[list(numbers)].mean(dim=0, keepdim=True) for numbers in spelled)])


def zero_dropped(vectors: Tensor, kept: Tensor | None) -> Tensor:
    return vectors if kept is None else vectors * kept[..., None]


EMBEDDINGS = {"lookup": Embedding, "onehot": OneHot, "region": Region}
