"""Attention as modules: projections and heads. The attention function itself is in nn/attend."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from headway.config.arguments import checked
from headway.config.errors import BadSetting, Problem
from headway.nn.attend import AttentionFunction, attend, attend_packed, soft
from headway.nn.block import NoNorm
from headway.nn.collectives import Axis, exchanged, spread
from headway.nn.context import NO_CONTEXT, Context
from headway.nn.cutting import Columns, Rows, heads_cut
from headway.nn.masks import no_later
from headway.nn.state import State


class Attention(nn.Module):
    """What self and cross attention share: heads, their norms, and the output projection."""

    keeps_slices = True  # of a sequence: keys and values come from all of them

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,  # fewer than heads: grouped-query attention
        qk_norm: Callable[[int], nn.Module] = NoNorm,  # of each query and key head
        attention_function: AttentionFunction = soft,
        dropout: float = 0.0,  # on the attention weights; above 0, a CPU has no fused kernel
        bias: bool = True,  # of the projections
    ):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        if width % heads:
            raise BadSetting("model.heads", f"a width of {width} cannot be split into {heads} heads: use a divisor")
        if heads % self.kv_heads:
            few = f"{heads} query heads cannot share {self.kv_heads} key heads"
            raise BadSetting("model.kv_heads", f"{few}: kv_heads must divide heads")
        self.head_width = width // heads
        self.query_norm, self.key_norm = qk_norm(self.head_width), qk_norm(self.head_width)
        self.attention_function, self.dropout = attention_function, dropout
        self.output = nn.Linear(width, width, bias)

    def narrow(self, axis: Axis) -> None:
        """Each rank has some of the heads."""
        self.heads, self.kv_heads = self.heads // axis.size, self.kv_heads // axis.size

    def split(self, x: Tensor) -> Tensor:
        # learn: begin attn.split
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)  # (B, T, H K) -> (B, H, T, K)
        # learn: end

    def mix(self, query: Tensor, key: Tensor, value: Tensor, state: State | None, **options: Any) -> Tensor:
        """Query, key and value heads to (B, T, D). With a state, keys and values have one row for each source."""
        return self.output(self.attended(query, key, value, state, **options).transpose(1, 2).flatten(-2))

    def attended(self, query: Tensor, key: Tensor, value: Tensor, state: State | None, **options: Any) -> Tensor:
        """(B, H, T, K)"""
        options |= {"dropout": self.dropout if self.training else 0.0, "attention_function": self.attention_function}
        query = query if state is None else state.group_beams(query)
        function = attend_packed if "packings" in options else attend
        mixed = function(query, key, value, **options)
        return mixed if state is None else state.ungroup_beams(mixed)


class SelfAttention(Attention):
    """Queries, keys and values come from the same tokens, in one matrix product."""

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
        self.project = nn.Linear(width, sum(self.head_counts) * self.head_width, bias)

    @property
    def head_counts(self) -> list[int]:
        """Of queries, keys and values."""
        return [self.heads, self.kv_heads, self.kv_heads]

    @property
    def cuts(self) -> dict[str, Columns | Rows]:
        return {"project": heads_cut(self.head_counts, self.head_width), "output": Rows()}

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        # learn: begin attn.multihead
        query, key, value = self.split(self.project(x)).split_with_sizes(self.head_counts, dim=1)
        query, key = context.rotate(self.query_norm(query)), context.rotate(self.key_norm(key))
        if context.across is not None:
            return self.mix_slices(query, key, value, context, context.across)
        state = context.state
        if state is not None:
            key, value = state.extend(self, key, value)
        options: dict[str, Any] = {"bias": context.bias, "causal": context.causal}
        if context.packing is not None:
            return self.mix(query, key, value, None, **options, packings=(context.packing, context.packing))
        return self.mix(query, key, value, state, **options, mask=context.mask, no_empty_rows=context.no_empty_rows)
        # learn: end

    def mix_slices(self, query: Tensor, key: Tensor, value: Tensor, context: Context, axis: Axis) -> Tensor:
        """Where ranks have slices of the sequence: each attends with some of the heads to the whole sequence (Ulysses,
        Jacobs et al. 2023, https://arxiv.org/abs/2309.14509), or, with too few of them, with all heads of its own
        queries to keys and values that are gathered."""
        mask, bias = context.mask, context.bias
        if self.kv_heads % axis.size == 0:
            query, key, value = (exchanged(each, axis, 1, 2) for each in (query, key, value))
            bias = None if bias is None else axis.slice(bias, -3)
            options = {"mask": mask, "causal": context.causal, "no_empty_rows": context.no_empty_rows}
            mixed = exchanged(self.attended(query, key, value, None, bias=bias, **options), axis, 2, 1)
            return self.output(mixed.transpose(1, 2).flatten(-2))
        key, value = spread(key, axis, 2), spread(value, axis, 2)
        if context.causal:
            earlier = no_later(key.shape[2], key.shape[2], key.device)
            mask = earlier if mask is None else mask & earlier
        if mask is not None and mask.shape[-2] > 1:
            mask = axis.slice(mask, -2)
        bias = None if bias is None else axis.slice(bias, -2)
        return self.mix(query, key, value, None, mask=mask, bias=bias, no_empty_rows=context.no_empty_rows)


class CrossAttention(Attention):
    """Queries come from x; keys and values from the context's memory, or from ``key`` and ``value``."""

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

    @property
    def cuts(self) -> dict[str, Columns | Rows]:
        few = heads_cut([self.kv_heads], self.head_width)
        return {"query": heads_cut([self.heads], self.head_width), "key": few, "value": few, "output": Rows()}

    def forward(
        self, x: Tensor, context: Context = NO_CONTEXT, key: Tensor | None = None, value: Tensor | None = None
    ) -> Tensor:
        # learn: begin attn.cross
        key = context.memory if key is None else key
        if key is None:
            raise Problem("cross attention has nothing to look at: give it a context with a memory, or keys")
        value = key if value is None else value
        # Positions and causality concern the target only: no rotation, bias or causal mask applies to the memory.
        project = partial(self.project_memory, key, value)
        keys, values = project() if context.state is None else context.state.cached_memory_heads(self, project)
        query = self.query_norm(self.split(self.query(x)))
        if context.packing is not None and context.memory_packing is not None:
            return self.mix(query, keys, values, None, packings=(context.packing, context.memory_packing))
        return self.mix(query, keys, values, context.state, mask=context.memory_mask)
        # learn: end

    def project_memory(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self.key_norm(self.split(self.key(key))), self.split(self.value(value))


@checked
@contextmanager
def watch_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the attention weights (B, H, T, S) of every attention module, by its name in the model.

        with watch_attention(model) as maps:
            model(tokens)

    >>> with hw.watch_attention(parity.network) as maps:
    ...     _ = parity.predict("0110")
    >>> [tuple(weights.shape) for weights in maps.values()]
    [(1, 2, 4, 4)]

    Watched modules use the readable formula instead of the fused kernel: same values, a little slower.
    """
    maps: dict[str, Tensor] = {}
    modules = {name: module for name, module in model.named_modules() if isinstance(module, Attention)}
    unwatched = {name: module.attention_function for name, module in modules.items()}
    try:
        for name, module in modules.items():
            module.attention_function = recording_weights(maps, name, module.attention_function)
        yield maps
    finally:
        for name, module in modules.items():
            module.attention_function = unwatched[name]


def recording_weights(maps: dict[str, Tensor], name: str, attention_function: AttentionFunction) -> AttentionFunction:
    def recorded(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        weights = attention_function(query, key, mask, bias)
        maps[name] = weights.detach()
        return weights

    return recorded
