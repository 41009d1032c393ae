"""The bytes that a process hands to collectives in a training step, by formula: with A the bytes of the activations
(B, T, D) of this process, n the size of the axis, and P the bytes of weights,

    data       P
    shard      all-gather 2 P / n, for the forward and the backward pass; reduce-scatter P
    tensor     all-reduce 2 A for each part that is cut, forwards and backwards, 1 A for the embedding, and as much for
               the states of predicted tokens; all-gather 3 numbers for each predicted token, and the head's bias
    context    all-to-all (2 H + 2 KV) K / D 2 A for each attention whose key heads n divides;
               otherwise all-gather 2 KV K / D A and reduce-scatter n times as many;
               halo 2 (before + after) B D for each part that reads neighbours, at the ends half of it;
               all-gather 2 A around the blocks; all-reduce P of the blocks

With ``shard``, P is divided by its size wherever gradients are added up along another axis.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn

from headway.config.parallel import Layout
from headway.models.heads import Head
from headway.nn.attention import SelfAttention
from headway.nn.feedforward import Neighbourhood
from headway.training.shares import sharding_units


def size_of(tensors: Iterable[Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def share_of(weights: Iterable[Tensor], processes: int) -> int:
    """The bytes of the first process: FSDP shares out the first dimension, rounded up, and leaves numbers whole."""
    return sum(size_of([each]) if each.ndim == 0 else rows_of(each, processes) for each in weights)


def rows_of(weight: Tensor, processes: int) -> int:
    return -(-len(weight) // processes) * size_of([weight]) // max(len(weight), 1)


def units(model: nn.Module) -> Iterator[tuple[str, list[Tensor]]]:
    """The weights that FSDP puts together at once; numbers are left alone."""
    done: set[Tensor] = set()
    for name, part in sharding_units(model).items():
        weights: list[Tensor] = [each for each in part.parameters() if each not in done and each.ndim > 0]
        done.update(weights)
        yield name, weights


def sharding(model: nn.Module, processes: int, accumulate: int = 1) -> dict[str, int]:
    """What FSDP sends: shares of weights, twice, and all gradients, by each micro-batch."""
    return (
        {}
        if processes == 1
        else {
            "all-gather": accumulate * sum(gathering(weights, processes) for _, weights in units(model)),
            "reduce-scatter": accumulate * sum(scattering(weights, processes) for _, weights in units(model)),
        }
    )


def gathering(weights: list[Tensor], processes: int) -> int:
    return 2 * share_of(weights, processes)


def scattering(weights: list[Tensor], processes: int) -> int:
    return processes * share_of([each for each in weights if each.requires_grad], processes)


def put_together(model: nn.Module) -> int:
    """At the worst moment of a sharded step: what is in no block, one block with its gradients, and the next block,
    which is fetched meanwhile."""
    *blocks, rest = (size_of(weights) for _, weights in units(model))
    return rest + 3 * max(blocks, default=0)


def by_formula(
    model: nn.Module, layout: Layout, rows: int, time: int, predicted: int, accumulate: int = 1
) -> Iterator[tuple[str, int]]:
    """The formulas above, for a model with one stack; none for others, such as an encoder and a decoder. ``predicted``
    is the number of tokens that a head computes logits for."""
    parts: list[Any] = list(model.modules())
    stack, *others = (part for part in parts if hasattr(part, "share_tokens"))
    if others:
        return
    weights, shard = list(model.parameters()), layout.size("shard")
    width = next(each for each in parts if hasattr(each, "vocabulary")).width
    size = weights[0].element_size()
    context, tensor = layout.size("context"), layout.size("tensor")
    activations = accumulate * size * rows * -(-time // context) * width
    blocks = share_of(stack.blocks.parameters(), shard)
    if layout.size("data") > 1:
        yield "data all-reduce", share_of(weights, shard) + size
    if shard > 1:
        for kind, count in sharding(model, shard, accumulate).items():
            yield f"shard {kind}", count
        yield "shard all-reduce", size_of(each for each in weights if each.ndim == 0) + size
    if tensor > 1:
        cut_parts = sum(bool(getattr(part, "cuts", {})) for part in parts)
        heads = [part for part in parts if isinstance(part, Head)]
        embedded = accumulate * size * rows * time * width
        read = accumulate * size * predicted * width * bool(heads)
        yield "tensor all-reduce", 2 * activations * cut_parts + embedded + read
        if heads:
            biases = sum(-(-len(part.bias) // tensor) for part in heads if part.bias is not None)
            yield "tensor all-gather", accumulate * size * (3 * predicted + biases)
    if context == 1:
        return
    exchanged, gathered = 0, 2 * activations
    for part in parts:
        if isinstance(part, SelfAttention):
            shares = activations * part.head_width // width
            if part.kv_heads % context == 0:
                exchanged += 2 * 2 * (part.heads + part.kv_heads) * shares
            else:
                gathered += 2 * part.kv_heads * shares
    yield "context all-gather", gathered
    yield "context all-reduce", blocks
    if exchanged:
        yield "context all-to-all", exchanged
    if gathered > 2 * activations:
        yield "context reduce-scatter", context * (gathered - 2 * activations)
    if halo := sum(part.before + part.after for part in parts if isinstance(part, Neighbourhood)):
        yield "context halo", min(context - 1, 2) * accumulate * halo * size * rows * width
