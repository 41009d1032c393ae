"""Attention as a function: each query takes a weighted mean of the values, weighted by how well their keys fit it.

    attend(Q, K, V) = softmax(Q K^T / sqrt(d) + bias) V        (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)

``attend`` is the only code that knows about softmax, fused kernels, dropout on the weights, and queries that may look
at nothing (they get zeros, and a zero gradient). A weighing makes weights of queries and keys: ``soft`` is the softmax,
``hard`` puts all weight on the best key. For ``soft`` a fused kernel does the work of ``soft(...) @ value``.

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

if torch.version.cuda:  # it brings torch's compiler along, which a CPU has no use for: a second, and 70 MiB
    from torch.nn.attention.varlen import varlen_attn

AttentionFunction = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


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


ATTENTION_FUNCTIONS: dict[str, AttentionFunction] = {"soft": soft, "hard": hard}


def attend(
    query: Tensor,  # (B, H, T, K)
    key: Tensor,  # (B, H, S, K); or fewer heads, each shared by a group of query heads
    value: Tensor,  # like key
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    causal: bool = False,
    no_empty_rows: bool = False,  # whether it is known that every query may look at a key
    dropout: float = 0.0,
    attention_function: AttentionFunction = soft,
) -> Tensor:
    """``attention_function(...) @ value``, by a fused kernel where there is one."""
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
    blind = None
    if mask is not None and not no_empty_rows and query.device.type != "cpu":
        # Some GPU kernels give these rows any values: let them look at everything, and put the zeros in afterwards.
        blind = ~mask.any(dim=-1, keepdim=True)
        mask = mask | blind
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    mixed = F.scaled_dot_product_attention(
        query, key, value, mask, dropout, causal, enable_gqa=bool(query.shape[1] != key.shape[1])
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
    """``attend`` within each pair of sequences: by a kernel for all of them on a GPU, else by size."""
    queries, keys = packings
    if queries.prefixes is not None:
        return attend_with_prefixes(query, key, value, queries, bias=bias, **how)
    kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype
    plain = bias is None and not how.get("dropout") and how.get("attention_function", soft) is soft
    if plain and query.is_cuda and kind is not torch.float32:
        heads: list[Any] = [each[0].transpose(0, 1).to(kind) for each in (query, key, value)]  # (N, H, K)
        return attend_at_once(heads, packings, how.get("causal", False)).transpose(0, 1)[None]
    apart = query.split(queries.sizes, dim=2), key.split(keys.sizes, dim=2), value.split(keys.sizes, dim=2)
    alike: dict[tuple[int, int], list[int]] = {}
    for place, sizes in enumerate(zip(queries.sizes, keys.sizes, strict=True)):
        alike.setdefault(sizes, []).append(place)
    mixed = list(apart[0])
    for (few, size), places in alike.items():  # queries are the last of the keys, if there are fewer
        own = None if bias is None else bias[:, size - few : size, :size]
        one, other, theirs = (torch.cat([each[place] for place in places]) for each in apart)
        found = attend(one, other, theirs, bias=own, **how)
        for place, own_part in zip(places, found.split(1), strict=True):
            mixed[place] = own_part
    return torch.cat(mixed, dim=2)


def attend_with_prefixes(query: Tensor, key: Tensor, value: Tensor, packing: Packing, **how: Any) -> Tensor:
    """The first tokens of each sequence see each other; each one behind them sees all that came before it."""
    assert packing.prefixes is not None
    first = packing.positions(query.shape[2]) < packing.prefixes.repeat_interleave(packing.lengths)
    own_query, own_key, own_value = (each[:, :, first] for each in (query, key, value))
    beginnings, rest = Packing.of(packing.prefixes), Packing.of(packing.lengths - packing.prefixes)
    mixed = torch.empty_like(query)
    alone = how | {"causal": False}
    mixed[:, :, first] = attend_packed(own_query, own_key, own_value, (beginnings, beginnings), **alone)
    mixed[:, :, ~first] = attend_packed(query[:, :, ~first], key, value, (rest, replace(packing, prefixes=None)), **how)
    return mixed


def attend_at_once(heads: list[Any], packings: tuple[Packing, Packing], causal: bool) -> Tensor:
    query, *others = heads
    others = [each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in others]
    where: list[Any] = [each.cu_seqlens for each in packings] + [each.max_seqlen for each in packings]
    mixed: Any = varlen_attn(query, *others, *where, window_size=(-1, 0) if causal else (-1, -1))
    return mixed


def has_few_queries(query: Tensor, key: Tensor) -> bool:
    """Whether there are a few queries to each row's keys, as in a search on a CPU, where plain products are quicker."""
    if query.device.type != "cpu" or torch.is_grad_enabled():
        return False
    return 1 < query.shape[2] <= 16 and query.shape[1] == key.shape[1]


def small_query_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
) -> Tensor:
    """The formula of ``soft``, worked out in place."""
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    if bias is not None:
        scores += bias
    if mask is None:
        return scores.softmax(dim=-1) @ value
    hidden = ~mask
    weights = scores.masked_fill_(hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill_(hidden, 0.0) @ value
