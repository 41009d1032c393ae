"""Sequences of all lengths in one row of tokens, one right behind another: nothing is worked out for padding.

What happens at each token by itself does not notice. Attention asks where sequences begin and end; parts that read
the tokens beside a token are given the sequences apart, padded (``through``).
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
    cu_seqlens: Tensor  # (n + 1,) int32: 0, and where each of the n sequences ends, among N tokens
    max_seqlen: int  # no sequence has more tokens
    prefixes: Tensor | None = None  # (n,) how many tokens of each see each other, though all else is causal

    @classmethod
    def of(cls, lengths: Tensor) -> "Packing":
        cu_seqlens = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return cls(cu_seqlens.to(torch.int32), int(lengths.max()))

    @cached_property
    def lengths(self) -> Tensor:
        return self.cu_seqlens.diff()

    @cached_property
    def sizes(self) -> list[int]:
        """The lengths, as numbers; a GPU has to be asked for them."""
        return self.lengths.tolist()

    def owners(self, time: int) -> Tensor:
        """(N,): which sequence each token is of; of those behind the last sequence, the last one."""
        places = torch.arange(time, device=self.cu_seqlens.device)
        return torch.searchsorted(self.cu_seqlens[1:], places, right=True).clamp(max=len(self.cu_seqlens) - 2)

    def positions(self, time: int) -> Tensor:
        """(N,): of each token in its sequence."""
        return torch.arange(time, device=self.cu_seqlens.device) - self.cu_seqlens[self.owners(time)]

    @cached_property
    def real(self) -> Tensor:
        """(n, longest): which tokens of the sequences apart are theirs."""
        return real_tokens(self.lengths, self.max_seqlen)

    def pad(self, x: Tensor) -> Tensor:
        """(1, N, ...) as (n, longest, ...), padded with zeros."""
        apart: Tensor = Pad.apply(x, self)
        return apart

    def unpad(self, x: Tensor) -> Tensor:
        """(n, longest, ...) as (1, N, ...)."""
        return x[self.real][None]

    def through(self, part: Callable[[Tensor, Tensor], Tensor], x: Tensor) -> Tensor:
        """``part`` of the sequences apart, and of which of their tokens are real."""
        return self.unpad(part(self.pad(x), self.real))


class Pad(torch.autograd.Function):
    """The gradient of a look-up is a sum for each token; here each is looked up once, and so the gradient is as well.
    torch, which does not know, would add up zeros for all the padding, one after another."""

    @staticmethod
    def forward(context: Any, x: Tensor, packing: Packing) -> Tensor:
        context.packing, context.time = packing, x.shape[1]
        places = packing.cu_seqlens[:-1, None] + torch.arange(packing.max_seqlen, device=x.device)
        real = packing.real.view(*packing.real.shape, *[1] * (x.ndim - 2))
        return torch.where(real, x[0, places.clamp(max=x.shape[1] - 1)], 0)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        packing: Packing = context.packing
        owners, positions = packing.owners(context.time), packing.positions(context.time)
        found = gradients[0][owners, positions.clamp(max=packing.max_seqlen - 1)]
        behind = positions >= packing.lengths[owners]
        return found.masked_fill(behind.view(-1, *[1] * (found.ndim - 1)), 0)[None], None
