"""Attention as a function: each query takes a weighted mean of the values, weighted by how well the keys match it.

    attend(Q, K, V) = softmax(Q K^T / sqrt(d) + bias) V        (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)

``attend`` is the only code that knows about softmax, fused kernels, dropout on the weights, and queries that may look
at nothing (they get zeros, and a zero gradient). An attention function turns queries and keys into attention weights:
``soft`` is the softmax, ``hard`` puts all weight on the best key. For ``soft``, a fused kernel computes
``soft(...) @ value``.

Shapes: B batch, H heads, T queries, S keys, K width of a head, D width.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.masks import no_later
from headway.nn.packing import Packing

if torch.version.cuda:  # this imports torch's compiler, which costs a second and 70 MiB and is useless on a CPU
    from torch.nn.attention.varlen import varlen_attn

AttentionFunction = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def soft(query: Tensor, key: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Attention weights (B, H, T, S): softmax(Q K^T / sqrt(d) + bias) over the keys that the mask allows."""
    # learn: begin attn.scaled
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias
    if mask is None:
        return scores.softmax(dim=-1)
    # The lowest finite number, not minus infinity: a fully masked row would be 0 / 0.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
    # learn: end


def hard(query: Tensor, key: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Weight 1 on the best key (the first in a tie), 0 elsewhere. The gradient is that of soft (straight-through)."""
    # learn: begin attn.hard
    weights = soft(query, key, mask, bias)
    best = torch.zeros_like(weights).scatter(-1, weights.argmax(dim=-1, keepdim=True), 1.0)
    if mask is not None:
        best = best.masked_fill(~mask, 0.0)
    return best + (weights - weights.detach())
    # learn: end


ATTENTION_FUNCTIONS: dict[str, AttentionFunction] = {"soft": soft, "hard": hard}


def attend(
    query: Tensor,  # (B, H, T, K)
    key: Tensor,  # (B, H, S, K); or fewer heads, each shared by a group of query heads
    value: Tensor,  # same shape as key
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    causal: bool = False,
    no_empty_rows: bool = False,  # the caller knows that every query may look at some key
    dropout: float = 0.0,
    attention_function: AttentionFunction = soft,
) -> Tensor:
    """``attention_function(...) @ value``, with a fused kernel if there is one."""
    if causal and (
        mask is not None or bias is not None or attention_function is not soft or query.shape[2] != key.shape[2]
    ):
        earlier = no_later(query.shape[2], key.shape[2], query.device)
        mask, causal = earlier if mask is None else mask & earlier, False
    if bias is not None:
        bias = bias.to(query.dtype)
    if attention_function is soft and not causal and has_few_queries(query, key):
        return small_query_attention(query, key, value, mask, bias)
    if attention_function is not soft:
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        return F.dropout(attention_function(query, key, mask, bias), dropout) @ value
    empty = None
    if mask is not None and not no_empty_rows and query.device.type != "cpu":
        # Some GPU kernels return garbage for fully masked rows: unmask these, and zero their outputs afterwards.
        empty = ~mask.any(dim=-1, keepdim=True)
        mask = mask | empty
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    mixed = F.scaled_dot_product_attention(
        query, key, value, mask, dropout, causal, enable_gqa=bool(query.shape[1] != key.shape[1])
    )
    return mixed if empty is None else mixed.masked_fill(empty, 0.0)


def attend_packed(
    query: Tensor,  # (1, H, N, K): the sequences of a batch, concatenated
    key: Tensor,
    value: Tensor,
    packings: tuple[Packing, Packing],  # of the queries, and of the keys
    bias: Tensor | None = None,  # (H, T, S) for the longest sequence
    **options: Any,
) -> Tensor:
    """``attend`` within each sequence: one varlen kernel on a GPU, otherwise one call for each sequence length."""
    queries, keys = packings
    if queries.prefixes is not None:
        return attend_with_prefixes(query, key, value, queries, bias=bias, **options)
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype
    plain = bias is None and not options.get("dropout") and options.get("attention_function", soft) is soft
    if plain and query.is_cuda and dtype is not torch.float32:
        heads: list[Any] = [each[0].transpose(0, 1).to(dtype) for each in (query, key, value)]  # (N, H, K)
        return attend_varlen(heads, packings, options.get("causal", False)).transpose(0, 1)[None]
    sequences = query.split(queries.sizes, dim=2), key.split(keys.sizes, dim=2), value.split(keys.sizes, dim=2)
    same_size: dict[tuple[int, int], list[int]] = {}
    for index, sizes in enumerate(zip(queries.sizes, keys.sizes, strict=True)):
        same_size.setdefault(sizes, []).append(index)
    mixed = list(sequences[0])
    for (query_size, key_size), indices in same_size.items():  # fewer queries than keys: they are the last positions
        own_bias = None if bias is None else bias[:, key_size - query_size : key_size, :key_size]
        own_query, own_key, own_value = (torch.cat([each[index] for index in indices]) for each in sequences)
        outputs = attend(own_query, own_key, own_value, bias=own_bias, **options)
        for index, output in zip(indices, outputs.split(1), strict=True):
            mixed[index] = output
    return torch.cat(mixed, dim=2)


def attend_with_prefixes(query: Tensor, key: Tensor, value: Tensor, packing: Packing, **options: Any) -> Tensor:
    """Prefix attention: the tokens of each sequence's prefix all see each other, later tokens are causal."""
    assert packing.prefixes is not None
    in_prefix = packing.positions(query.shape[2]) < packing.prefixes.repeat_interleave(packing.lengths)
    own_query, own_key, own_value = (each[:, :, in_prefix] for each in (query, key, value))
    prefixes, rest = Packing.of(packing.prefixes), Packing.of(packing.lengths - packing.prefixes)
    mixed = torch.empty_like(query)
    packings = prefixes, prefixes
    mixed[:, :, in_prefix] = attend_packed(own_query, own_key, own_value, packings, **options | {"causal": False})
    packings = rest, replace(packing, prefixes=None)
    mixed[:, :, ~in_prefix] = attend_packed(query[:, :, ~in_prefix], key, value, packings, **options)
    return mixed


def attend_varlen(heads: list[Any], packings: tuple[Packing, Packing], causal: bool) -> Tensor:
    query, *others = heads
    others = [each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in others]
    bounds: list[Any] = [each.cu_seqlens for each in packings] + [each.max_seqlen for each in packings]
    mixed: Any = varlen_attn(query, *others, *bounds, window_size=(-1, 0) if causal else (-1, -1))
    return mixed


def has_few_queries(query: Tensor, key: Tensor) -> bool:
    """Whether there are only a few queries per row, as in beam search: on a CPU, plain products are faster then."""
    if query.device.type != "cpu" or torch.is_grad_enabled():
        return False
    return 1 < query.shape[2] <= 16 and query.shape[1] == key.shape[1]


def small_query_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
) -> Tensor:
    """The formula of ``soft``, computed in place."""
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    if bias is not None:
        scores += bias
    if mask is None:
        return scores.softmax(dim=-1) @ value
    hidden = ~mask
    weights = scores.masked_fill_(hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill_(hidden, 0.0) @ value
