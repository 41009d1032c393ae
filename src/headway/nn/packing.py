"""Packing: sequences of different lengths concatenated into one row, so that nothing is computed for padding.

Parts that treat tokens one by one need no change. Attention needs the sequence boundaries; parts that read neighbouring
tokens get padded sequences (``apply_padded``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from headway.nn.masks import real_tokens


@dataclass(frozen=True)
class Packing:
    cu_seqlens: Tensor  # (n + 1,) int32: 0, then the cumulative lengths of n sequences with N tokens in total
    max_seqlen: int
    prefixes: Tensor | None = None  # (n,) lengths of prefixes with bidirectional attention; the rest is causal

    @classmethod
    def of(cls, lengths: Tensor) -> "Packing":
        cu_seqlens = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return cls(cu_seqlens.to(torch.int32), int(lengths.max()))

    @cached_property
    def lengths(self) -> Tensor:
        return self.cu_seqlens.diff()

    @cached_property
    def sizes(self) -> list[int]:
        """The lengths as Python ints; on a GPU this synchronises."""
        return self.lengths.tolist()

    def owners(self, time: int) -> Tensor:
        """(N,): the index of each token's sequence; padding behind the last sequence belongs to the last."""
        tokens = torch.arange(time, device=self.cu_seqlens.device)
        return torch.searchsorted(self.cu_seqlens[1:], tokens, right=True).clamp(max=len(self.cu_seqlens) - 2)

    def positions(self, time: int) -> Tensor:
        """(N,): the position of each token in its sequence."""
        return torch.arange(time, device=self.cu_seqlens.device) - self.cu_seqlens[self.owners(time)]

    @cached_property
    def real(self) -> Tensor:
        """(n, max_seqlen): False at the padding of the padded sequences."""
        return real_tokens(self.lengths, self.max_seqlen)

    def pad(self, x: Tensor) -> Tensor:
        """(1, N, ...) -> (n, max_seqlen, ...), padded with zeros."""
        padded: Tensor = Pad.apply(x, self)
        return padded

    def unpad(self, x: Tensor) -> Tensor:
        """(n, max_seqlen, ...) -> (1, N, ...)."""
        return x[self.real][None]

    def apply_padded(self, function: Callable[[Tensor, Tensor], Tensor], x: Tensor) -> Tensor:
        """``function(padded, real)`` of the padded sequences, packed again."""
        return self.unpad(function(self.pad(x), self.real))


class Pad(torch.autograd.Function):
    """Indexing with a faster gradient. torch's own backward scatters and sums, including zeros for all the padding.
    Here each token is read exactly once, so that the gradient is a plain lookup too."""

    @staticmethod
    def forward(context: Any, x: Tensor, packing: Packing) -> Tensor:
        context.packing, context.time = packing, x.shape[1]
        indices = packing.cu_seqlens[:-1, None] + torch.arange(packing.max_seqlen, device=x.device)
        real = packing.real.view(*packing.real.shape, *[1] * (x.ndim - 2))
        return torch.where(real, x[0, indices.clamp(max=x.shape[1] - 1)], 0)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        packing: Packing = context.packing
        owners, positions = packing.owners(context.time), packing.positions(context.time)
        gradient = gradients[0][owners, positions.clamp(max=packing.max_seqlen - 1)]
        padding = positions >= packing.lengths[owners]
        return gradient.masked_fill(padding.view(-1, *[1] * (gradient.ndim - 1)), 0)[None], None
