"""Attention as parts of a model: heads, and what queries, keys and values come from; see nn/attend for the rest."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.attend import AttentionFunction, attend, attend_packed, soft
from headway.nn.context import ALONE, Context
from headway.nn.norms import NoNorm
from headway.nn.state import State


class Attention(nn.Module):
    """What self and cross attention share: heads, their norm, the mixing, and the output matrix."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,  # fewer than heads: each key head serves a group of query heads
        qk_norm: Callable[[int], nn.Module] = NoNorm,  # of each query and key
        attention_function: AttentionFunction = soft,
        dropout: float = 0.0,  # on the weights; anything above 0 costs the fused kernel on a CPU
        bias: bool = True,  # whether matrices have one
    ):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        if width % heads:
            raise Problem(f"a width of {width} cannot be split into {heads} heads: make it a multiple of them")
        if heads % self.kv_heads:
            raise Problem(f"{heads} query heads cannot share {self.kv_heads} key heads: make it a divisor of them")
        self.head_width = width // heads
        self.query_norm, self.key_norm = qk_norm(self.head_width), qk_norm(self.head_width)
        self.attention_function, self.dropout = attention_function, dropout
        self.output = nn.Linear(width, width, bias)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)  # (B, T, H K) -> (B, H, T, K)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, state: State | None, **how: Any) -> Tensor:
        """Heads of queries, keys and values in; (B, T, D) out. Of a state, keys and values are its sources'."""
        how |= {"dropout": self.dropout if self.training else 0.0, "attention_function": self.attention_function}
        query = query if state is None else state.grouped(query)
        mixed = attend_packed(query, key, value, **how) if "packings" in how else attend(query, key, value, **how)
        mixed = mixed if state is None else state.pad(mixed)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class SelfAttention(Attention):
    """Queries, keys and values come from the same tokens, by one matrix product."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        qk_norm: Callable[[int], nn.Module] = NoNorm,
        attention_function: AttentionFunction = soft,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__(width, heads, kv_heads, qk_norm, attention_function, dropout, bias)
        self.shares = [self.heads, self.kv_heads, self.kv_heads]  # of queries, keys and values
        self.project = nn.Linear(width, sum(self.shares) * self.head_width, bias)

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        query, key, value = self.split(self.project(x)).split_with_sizes(self.shares, dim=1)
        query, key = context.rotate(self.query_norm(query)), context.rotate(self.key_norm(key))
        state = context.state
        if state is not None:
            key, value = state.extend(self, key, value)
        how: dict[str, Any] = {"bias": context.bias, "causal": context.causal}
        if context.packing is not None:
            return self.mix(query, key, value, None, **how, packings=(context.packing, context.packing))
        return self.mix(query, key, value, state, **how, mask=context.mask, no_empty_rows=context.no_empty_rows)


class CrossAttention(Attention):
    """Queries come from x; keys and values from the context's memory, or from two inputs with widths of their own."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        qk_norm: Callable[[int], nn.Module] = NoNorm,
        attention_function: AttentionFunction = soft,
        dropout: float = 0.0,
        bias: bool = True,
        key_width: int | None = None,
        value_width: int | None = None,
    ):
        super().__init__(width, heads, kv_heads, qk_norm, attention_function, dropout, bias)
        self.query = nn.Linear(width, width, bias)
        self.key = nn.Linear(key_width or width, self.kv_heads * self.head_width, bias)
        self.value = nn.Linear(value_width or key_width or width, self.kv_heads * self.head_width, bias)

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
    unwatched = {name: module.attention_function for name, module in parts.items()}
    try:
        for name, module in parts.items():
            module.attention_function = keeping_weights(maps, name, module.attention_function)
        yield maps
    finally:
        for name, module in parts.items():
            module.attention_function = unwatched[name]


def keeping_weights(maps: dict[str, Tensor], name: str, attention_function: AttentionFunction) -> AttentionFunction:
    def weights_kept(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        weights = attention_function(query, key, mask, bias)
        maps[name] = weights.detach()
        return weights

    return weights_kept
