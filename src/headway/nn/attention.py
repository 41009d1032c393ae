"""Attention: each query takes a weighted mean of the values, weighted by how well their keys fit it.

    attend(Q, K, V) = softmax(Q K^T / sqrt(d) + bias) V        (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)

``attend`` is the only code that knows about softmax, fused kernels, dropout on the weights, and queries that may look
at nothing (they get zeros, and a zero gradient). A weighing makes weights of queries and keys: ``soft`` is the softmax,
``hard`` puts all weight on the best key. For ``soft`` a fused kernel does the work of ``soft(...) @ value``.

Shapes: B batch, H heads, T queries, S keys, K width of a head, D width.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.errors import Problem
from headway.nn.context import ALONE, Context
from headway.nn.masks import no_later
from headway.nn.norms import NoNorm
from headway.nn.packing import Packing
from headway.nn.state import State

Weighing = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def soft(query: Tensor, key: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Weights (B, H, T, S): softmax(Q K^T / sqrt(d) + bias) over the keys that may be looked at."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias
    if mask is None:
        return scores.softmax(dim=-1)
    # The lowest number, not minus infinity: where nothing may be looked at, that would be 0 / 0.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def hard(query: Tensor, key: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Weight 1 on the best key (the first of equals), 0 elsewhere; to learn at all, it borrows the gradient of soft."""
    weights = soft(query, key, mask, bias)
    best = torch.zeros_like(weights).scatter(-1, weights.argmax(dim=-1, keepdim=True), 1.0)
    if mask is not None:
        best = best.masked_fill(~mask, 0.0)
    return best + (weights - weights.detach())


WEIGHINGS: dict[str, Weighing] = {"soft": soft, "hard": hard}


def attend(
    query: Tensor,  # (B, H, T, K)
    key: Tensor,  # (B, H, S, K); or fewer heads, each shared by a group of query heads
    value: Tensor,  # like key
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    causal: bool = False,
    sighted: bool = False,  # whether it is known that every query may look at a key
    dropout: float = 0.0,
    weigh: Weighing = soft,
) -> Tensor:
    """``weigh(...) @ value``, by a fused kernel where there is one."""
    if causal and (mask is not None or bias is not None or weigh is not soft or query.shape[2] != key.shape[2]):
        earlier = no_later(query.shape[2], key.shape[2], query.device)
        mask, causal = earlier if mask is None else mask & earlier, False
    if bias is not None:
        bias = bias.to(query.dtype)
    if weigh is soft and not causal and are_few(query, key):
        return attend_few(query, key, value, mask, bias)
    if weigh is not soft:
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        return F.dropout(weigh(query, key, mask, bias), dropout) @ value
    blind = None
    if mask is not None and not sighted and query.device.type != "cpu":
        # Some GPU kernels give these rows any values: let them look at everything, and put the zeros in afterwards.
        blind = ~mask.any(dim=-1, keepdim=True)
        mask = mask | blind
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    mixed = F.scaled_dot_product_attention(
        query, key, value, mask, dropout, causal, enable_gqa=query.shape[1] != key.shape[1]
    )
    return mixed if blind is None else mixed.masked_fill(blind, 0.0)


def attend_packed(
    query: Tensor,  # (1, H, N, K), of sequences one behind another
    key: Tensor,
    value: Tensor,
    packings: tuple[Packing, Packing],  # where those of the queries begin and end, and those of the keys
    bias: Tensor | None = None,  # (H, T, S) of the longest
    **how: Any,
) -> Tensor:
    """``attend`` within each pair of sequences: by a kernel for all of them on a GPU, else one by one."""
    queries, keys = packings
    kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype
    plain = bias is None and not how.get("dropout") and how.get("weigh", soft) is soft
    if plain and query.is_cuda and kind is not torch.float32:
        heads: list[Any] = [each[0].transpose(0, 1).to(kind) for each in (query, key, value)]  # (N, H, K)
        return attend_at_once(heads, packings, how.get("causal", False)).transpose(0, 1)[None]
    apart = [query.split(queries.sizes, dim=2), key.split(keys.sizes, dim=2), value.split(keys.sizes, dim=2)]
    mixed = []
    for one, other, theirs in zip(*apart, strict=True):
        own = None if bias is None else bias[:, : one.shape[2], : other.shape[2]]
        mixed.append(attend(one, other, theirs, bias=own, **how))
    return torch.cat(mixed, dim=2)


def attend_at_once(heads: list[Any], packings: tuple[Packing, Packing], causal: bool) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    query, *others = heads
    others = [each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in others]
    where: list[Any] = [each.ends for each in packings] + [each.longest for each in packings]
    mixed: Any = varlen_attn(query, *others, *where, window_size=(-1, 0) if causal else (-1, -1))
    return mixed


def are_few(query: Tensor, key: Tensor) -> bool:
    """Whether there are a few queries to each row's keys, as in a search on a CPU, where plain products are quicker."""
    few = 1 < query.shape[2] <= 16 and query.shape[1] == key.shape[1]
    return few and query.device.type == "cpu" and not torch.is_grad_enabled()


def attend_few(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """The formula of ``soft``, worked out in place."""
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    if bias is not None:
        scores += bias
    if mask is None:
        return scores.softmax(dim=-1) @ value
    hidden = ~mask
    weights = scores.masked_fill_(hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill_(hidden, 0.0) @ value


class Attention(nn.Module):
    """What self and cross attention share: heads, their norm, the mixing, and the output matrix."""

    def __init__(
        self,
        width: int,
        heads: int,
        key_heads: int | None = None,  # fewer than heads: each key head serves a group of query heads
        head_norm: Callable[[int], nn.Module] = NoNorm,  # of each query and key
        weigh: Weighing = soft,
        dropout: float = 0.0,  # on the weights; anything above 0 costs the fused kernel on a CPU
    ):
        super().__init__()
        self.heads, self.key_heads = heads, key_heads or heads
        if width % heads:
            raise Problem(f"a width of {width} cannot be split into {heads} heads: make it a multiple of them")
        if heads % self.key_heads:
            raise Problem(f"{heads} query heads cannot share {self.key_heads} key heads: make it a divisor of them")
        self.head_width = width // heads
        self.query_norm, self.key_norm = head_norm(self.head_width), head_norm(self.head_width)
        self.weigh, self.dropout = weigh, dropout
        self.output = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)  # (B, T, H K) -> (B, H, T, K)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, state: State | None, **how: Any) -> Tensor:
        """Heads of queries, keys and values in; (B, T, D) out. Of a state, keys and values are its sources'."""
        how |= {"dropout": self.dropout if self.training else 0.0, "weigh": self.weigh}
        query = query if state is None else state.grouped(query)
        mixed = attend_packed(query, key, value, **how) if "packings" in how else attend(query, key, value, **how)
        mixed = mixed if state is None else state.apart(mixed)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class SelfAttention(Attention):
    """Queries, keys and values come from the same tokens, by one matrix product."""

    def __init__(
        self,
        width: int,
        heads: int,
        key_heads: int | None = None,
        head_norm: Callable[[int], nn.Module] = NoNorm,
        weigh: Weighing = soft,
        dropout: float = 0.0,
    ):
        super().__init__(width, heads, key_heads, head_norm, weigh, dropout)
        self.shares = [self.heads, self.key_heads, self.key_heads]  # of queries, keys and values
        self.project = nn.Linear(width, sum(self.shares) * self.head_width)

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        query, key, value = self.split(self.project(x)).split_with_sizes(self.shares, dim=1)
        query, key = context.turn(self.query_norm(query)), context.turn(self.key_norm(key))
        state = context.state
        if state is not None:
            key, value = state.extend(self, key, value)
        how: dict[str, Any] = {"bias": context.bias, "causal": context.causal}
        if context.packing is not None:
            return self.mix(query, key, value, None, **how, packings=(context.packing, context.packing))
        return self.mix(query, key, value, state, **how, mask=context.mask, sighted=context.sighted)


class CrossAttention(Attention):
    """Queries come from x; keys and values from the context's memory, or from two inputs with widths of their own."""

    def __init__(
        self,
        width: int,
        heads: int,
        key_heads: int | None = None,
        head_norm: Callable[[int], nn.Module] = NoNorm,
        weigh: Weighing = soft,
        dropout: float = 0.0,
        key_width: int | None = None,
        value_width: int | None = None,
    ):
        super().__init__(width, heads, key_heads, head_norm, weigh, dropout)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(key_width or width, self.key_heads * self.head_width)
        self.value = nn.Linear(value_width or key_width or width, self.key_heads * self.head_width)

    def forward(
        self, x: Tensor, context: Context = ALONE, key: Tensor | None = None, value: Tensor | None = None
    ) -> Tensor:
        key = context.memory if key is None else key
        if key is None:
            raise Problem("cross attention has nothing to look at: give it a context with a memory, or keys")
        value = key if value is None else value
        # Positions and causality are the queries' own matter: neither a turn, a bias nor an order reaches the memory.
        heads = partial(self.heads_of, key, value)
        keys, values = heads() if context.state is None else context.state.of_memory(self, heads)
        query = self.query_norm(self.split(self.query(x)))
        if context.packing is not None and context.memory_packing is not None:
            return self.mix(query, keys, values, None, packings=(context.packing, context.memory_packing))
        return self.mix(query, keys, values, context.state, mask=context.memory_mask)

    def heads_of(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self.key_norm(self.split(self.key(key))), self.split(self.value(value))


@contextmanager
def watch_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the weights (B, H, T, S) of every attention part, by its name in the model, as forward passes run.

        with watch_attention(model) as maps:
            model(tokens)

    A part that is watched weighs by the readable formula in place of the fused kernel: same values, a little slower.
    """
    maps: dict[str, Tensor] = {}
    parts = {name: module for name, module in model.named_modules() if isinstance(module, Attention)}
    unwatched = {name: module.weigh for name, module in parts.items()}
    try:
        for name, module in parts.items():
            module.weigh = keeping_weights(maps, name, module.weigh)
        yield maps
    finally:
        for name, module in parts.items():
            module.weigh = unwatched[name]


def keeping_weights(maps: dict[str, Tensor], name: str, weigh: Weighing) -> Weighing:
    def weigh_and_keep(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        weights = weigh(query, key, mask, bias)
        maps[name] = weights.detach()
        return weights

    return weigh_and_keep
