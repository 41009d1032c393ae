"""Embeddings: from tokens to vectors.

- lookup: the token's row of a matrix
- onehot: the token's one-hot vector times that matrix; the same function with the same gradient, but slower
- region: relu of a sum of rows of several matrices, one for the token and one for each of its neighbours: a
  convolution over one-hot vectors (Johnson & Zhang 2015, https://arxiv.org/abs/1412.1058)
- ngrams: a sum of rows, one for the token and one for each n-gram that ends with it; n-grams share rows by their hash
  (Bojanowski et al. 2017, https://arxiv.org/abs/1607.04606; Pagnoni et al. 2024, https://arxiv.org/abs/2412.09871)

The lookup matrix is initialised with variance 1/D and its rows are multiplied by sqrt(D) (Vaswani et al. 2017,
section 3.4): vectors start with variance 1, and the same matrix can be tied to the output layer.

``kept`` (B, T) is False for padding and for tokens removed by token dropout; their vectors are zeros.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.errors import Problem
from headway.nn.collectives import Axis
from headway.nn.context import NO_CONTEXT, Context, refuse_documents
from headway.nn.cutting import Cut
from headway.nn.vocabulary import PaddedCut, TableShare

MULTIPLIER = 0x5851F42D4C957F2D  # of a hash modulo 2^64 (Knuth's, for linear congruential generators)


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, width: int, start: float = 1.0, scale: float | None = None):
        """``start`` is the initial standard deviation of the vectors, ``scale`` the factor on rows; None: sqrt(D)."""
        super().__init__()
        self.vocabulary, self.width = vocabulary, width
        self.scale = math.sqrt(width) if scale is None else scale
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=start / self.scale)
        self.share: TableShare | None = None

    def forward(self, tokens: Tensor, kept: Tensor | None = None, context: Context = NO_CONTEXT) -> Tensor:
        return zero_dropped(self.rows(tokens) * self.scale, kept)

    def rows(self, tokens: Tensor) -> Tensor:
        if self.share is None:
            return self.table(tokens)
        found, there = self.share.find(tokens)
        return self.share.whole(self.table(found) * there[..., None])

    @property
    def blocks(self) -> tuple[int, ...]:
        """The rows of the table that belong together, those of the tokens first: each rank has some of each."""
        return (self.vocabulary,)

    @property
    def cut_tensors(self) -> dict[str, Cut]:
        return {"table.weight": PaddedCut(0, self.blocks)}

    def narrow(self, axis: Axis) -> None:
        self.share = TableShare(axis, self.blocks)

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor | None:
        """From a larger table, the rows of the tokens that this one has: the first ones."""
        return theirs[: len(ours)] if len(theirs) > len(ours) else None

    def extend(self, theirs: Tensor, spelled: Sequence[Sequence[int]]) -> Tensor:
        """A table of fewer tokens, with a row for each new one."""
        return with_means(theirs, spelled)

    def logits(self, states: Tensor, bias: Tensor | None = None) -> Any:
        """Output logits of states (..., D), with the embedding matrix as output matrix (tied weights)."""
        if self.share is not None:
            return self.share.logits(states, self.table.weight[: self.share.tokens], bias, self.training)
        logits = self.all_logits(states)
        return logits if bias is None else logits + bias

    def all_logits(self, states: Tensor) -> Tensor:
        matrix = self.table.weight[: self.vocabulary]
        if not (self.training and states.is_cuda):
            return F.linear(states, matrix)
        # A GPU multiplies matrices several times faster if their sides are multiples of 8.
        return F.linear(states, F.pad(matrix, (0, 0, 0, -len(matrix) % 8)))[..., : self.vocabulary]


class OneHot(Embedding):
    def forward(self, tokens: Tensor, kept: Tensor | None = None, context: Context = NO_CONTEXT) -> Tensor:
        if self.share is not None:
            return Embedding.forward(self, tokens, kept, context)
        # learn: begin model.onehot
        onehot = F.one_hot(tokens, self.vocabulary).to(self.table.weight.dtype)
        return zero_dropped(onehot @ self.table.weight * self.scale, kept)
        # learn: end


class Windowed(Embedding):
    """Reads each token with its neighbours, in a window of ``before + 1 + after`` tokens.

    All rows are in one table, those of the token itself first. One embedding_bag call looks up and sums them, so that
    they are never materialised.
    """

    def __init__(self, rows: int, vocabulary: int, width: int, before: int, after: int, start: float):
        if before < 0 or after < 0:
            raise Problem(f"before={before} and after={after} are numbers of tokens: neither may be negative")
        super().__init__(rows, width)
        self.vocabulary, self.before, self.after = vocabulary, before, after
        self.looks_ahead = "after=0" if after else ""
        nn.init.normal_(self.table.weight, std=start)

    def windows(self, tokens: Tensor, kept: Tensor | None, context: Context) -> tuple[Tensor, Tensor]:
        """(B, T, n) each: the tokens of each window, from left to right, and whether they are there."""
        refuse_documents(self, context)
        kept = torch.ones_like(tokens) if kept is None else kept.to(tokens.dtype)
        pairs = torch.stack([tokens, kept], dim=-1)  # zero padding beyond the ends counts as not kept
        if context.packing is not None:
            windows = context.packing.apply_padded(lambda padded, _: self.in_padding(padded), pairs)
        elif context.state is not None:
            windows = self.unfold(context.state.with_history(self, pairs, self.before, context.new))
        else:
            windows = self.in_padding(pairs)
        found, there = windows.unbind(2)
        return found, there

    def in_padding(self, pairs: Tensor) -> Tensor:
        return self.unfold(F.pad(pairs, (0, 0, self.before, self.after)))

    def unfold(self, padded: Tensor) -> Tensor:
        """(B, T + n - 1, 2) -> (B, T, 2, n)."""
        return padded.unfold(1, self.before + 1 + self.after, 1)

    def sum_of_rows(self, rows: Tensor, weights: Tensor) -> Tensor:
        """(B, T, n) -> (B, T, D)."""
        if self.share is not None:
            rows, there = self.share.find(rows)
            weights = weights * there
        weights = weights.to(self.table.weight.dtype).flatten(0, 1)
        total = F.embedding_bag(rows.flatten(0, 1), self.table.weight, mode="sum", per_sample_weights=weights)
        total = total.view(*rows.shape[:2], self.width)
        return total if self.share is None else self.share.whole(total)


class Region(Windowed):
    """Each place in the window has its own matrix."""

    def __init__(self, vocabulary: int, width: int, before: int = 1, after: int = 1, start: float = 0.01):
        super().__init__((before + 1 + after) * vocabulary, vocabulary, width, before, after, start)
        self.columns = [before, *range(before), *range(before + 1, before + 1 + after)]
        self.bias = nn.Parameter(torch.zeros(width))

    @property
    def blocks(self) -> tuple[int, ...]:
        return (self.vocabulary,) * len(self.columns)

    def forward(self, tokens: Tensor, kept: Tensor | None = None, context: Context = NO_CONTEXT) -> Tensor:
        found, there = (each[..., self.columns] for each in self.windows(tokens, kept, context))
        matrices = self.vocabulary * torch.arange(len(self.columns), device=tokens.device)
        return (self.sum_of_rows(found + matrices, there) + self.bias).relu()

    def resize(self, theirs: Tensor, ours: Tensor) -> None:
        """None: in a stacked table of another size, the same rows belong to other tokens."""

    def extend(self, theirs: Tensor, spelled: Sequence[Sequence[int]]) -> Tensor:
        return torch.cat([with_means(own, spelled) for own in theirs.chunk(len(self.columns))])


class NGrams(Windowed):
    """The rows of n-grams, of 2 to ``longest`` tokens, follow those of tokens. An n-gram that has a dropped token has
    none."""

    def __init__(self, vocabulary: int, width: int, longest: int = 4, buckets: int = 131_072, start: float = 0.1):
        """``start`` is the initial standard deviation of the rows."""
        if longest < 1 or buckets < 1:
            raise Problem(f"longest={longest} and buckets={buckets} must be at least 1")
        super().__init__(vocabulary + buckets, vocabulary, width, longest - 1, 0, start)
        self.buckets = buckets
        self.columns = list(reversed(range(longest)))  # the token itself first

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.vocabulary, self.buckets

    def forward(self, tokens: Tensor, kept: Tensor | None = None, context: Context = NO_CONTEXT) -> Tensor:
        found, there = (each[..., self.columns] for each in self.windows(tokens, kept, context))
        hashes = found[..., :1]
        rows = [hashes]
        for earlier in range(1, self.before + 1):
            hashes = hashes * MULTIPLIER + found[..., earlier : earlier + 1] + 1
            rows.append(self.vocabulary + (hashes ^ (hashes >> 32)) % self.buckets)
        return self.sum_of_rows(torch.cat(rows, dim=-1), (there == 0).cumsum(dim=-1) == 0)

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor | None:
        is_larger = len(theirs) > len(ours)
        return torch.cat([theirs[: self.vocabulary], theirs[-self.buckets :]]) if is_larger else None

    def extend(self, theirs: Tensor, spelled: Sequence[Sequence[int]]) -> Tensor:
        tokens, ngrams = theirs[: -self.buckets], theirs[-self.buckets :]
        return torch.cat([with_means(tokens, spelled), ngrams])


def with_means(rows: Tensor, spelled: Sequence[Sequence[int]]) -> Tensor:
    """The rows of tokens, and for each new one the mean of those of the tokens that spelled it."""
    return torch.cat([rows, *(rows[list(numbers)].mean(dim=0, keepdim=True) for numbers in spelled)])


def zero_dropped(vectors: Tensor, kept: Tensor | None) -> Tensor:
    return vectors if kept is None else vectors * kept[..., None]


EMBEDDINGS = {"lookup": Embedding, "onehot": OneHot, "region": Region, "ngrams": NGrams}
