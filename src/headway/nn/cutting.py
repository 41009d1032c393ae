"""Tensor parallelism: the heads and hidden units of each layer are shared out (Shoeybi et al. 2019,
https://arxiv.org/abs/1909.08053).

A part says how it is cut: ``cuts`` names its linear layers with ``Columns`` (each rank has some of the outputs) or
``Rows`` (each rank reads some of the inputs, and the results are summed). What says nothing is the same on all ranks.

    FeedForward    inner by columns, outer by rows
    Gated          inner by columns, in two blocks: gates and values; outer by rows
    attention      projections by columns, head by head; output by rows
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.errors import BadSetting
from headway.nn.collectives import Axis, shared, summed

KEY = "train.parallel"


@dataclass(frozen=True)
class Cut:
    """A tensor's dimension, and the sizes of its blocks, each of which is shared out in units that stay whole."""

    dim: int
    blocks: tuple[int, ...]
    unit: int = 1

    @property
    def length(self) -> int:
        return sum(self.blocks)

    def units(self) -> list[int]:
        return [size // self.unit for size in dict.fromkeys(self.blocks)]

    def local(self, whole: Tensor, axis: Axis) -> Tensor:
        """The rank's share of each block."""
        return torch.cat([axis.slice(block, self.dim) for block in whole.split(self.blocks, self.dim)], self.dim)

    def spans(self, rank: int, ranks: int) -> list[tuple[int, int]]:
        """Where the share of a rank begins and ends along the dimension."""
        ends = itertools.accumulate(self.blocks)
        shares = ((end - size, size // ranks) for end, size in zip(ends, self.blocks, strict=True))
        return [(start + rank * size, start + (rank + 1) * size) for start, size in shares]

    def whole(self, local: Tensor, axis: Axis) -> Tensor:
        ranks = axis.gather(local[None], 0)
        sizes = [size // axis.size for size in self.blocks]
        blocks = [rank.split(sizes, self.dim) for rank in ranks]
        return torch.cat([rank[index] for index in range(len(sizes)) for rank in blocks], self.dim)


@dataclass(frozen=True)
class Columns:
    blocks: tuple[int, ...] | None = None  # sizes of the outputs that are cut apart; None: one block
    unit: int = 1

    def of(self, linear: nn.Linear) -> dict[str, Cut]:
        cut = Cut(0, self.blocks or (linear.out_features,), self.unit)
        return {"weight": cut} | ({} if linear.bias is None else {"bias": cut})

    def apply(self, linear: nn.Linear, axis: Axis) -> nn.Linear:
        return linear


@dataclass(frozen=True)
class Rows:
    def of(self, linear: nn.Linear) -> dict[str, Cut]:
        return {"weight": Cut(1, (linear.in_features,))}

    def apply(self, linear: nn.Linear, axis: Axis) -> nn.Linear:
        linear.__class__ = RowLinear
        linear.axis = axis  # type: ignore[assignment]
        return linear


class RowLinear(nn.Linear):
    """Each rank has some columns of the matrix; the bias is added once."""

    axis: Any

    def forward(self, x: Tensor) -> Tensor:
        total = summed(F.linear(x, self.weight), self.axis)
        return total if self.bias is None else total + self.bias


def cut_model(model: nn.Module, axis: Axis) -> tuple[dict[str, Cut], list[Tensor]]:
    """Cut the parts of a model that say how; returns how each weight is cut, and those weights of which each rank has
    a share of the gradient."""
    cuts: dict[str, Cut] = {}
    inside: list[Tensor] = []
    part: Any
    for name, part in model.named_modules():
        how: Mapping[str, Columns | Rows] = getattr(part, "cuts", {})
        for child, way in how.items():
            linear = part.get_submodule(child)
            for weight, cut in way.of(linear).items():
                cuts[f"{name}.{child}.{weight}"] = shrink(linear, weight, cut, axis, name)
            way.apply(linear, axis)
        if how:
            part.register_forward_pre_hook(enter(axis))
            own = {f"{name}.{weight}": each for weight, each in part.named_parameters()}
            outer = {f"{name}.{child}.bias" for child, way in how.items() if isinstance(way, Rows)}
            inside += [each for weight, each in own.items() if weight not in cuts and weight not in outer]
        for weight, cut in getattr(part, "cut_tensors", {}).items():
            owner, _, last = weight.rpartition(".")
            cuts[f"{name}.{weight}"] = shrink(part.get_submodule(owner), last, cut, axis, name)
    for part in model.modules():
        if hasattr(part, "narrow"):
            part.narrow(axis)
    return cuts, inside


def shrink(module: nn.Module, name: str, cut: Cut, axis: Axis, part: str) -> Cut:
    """Replace a tensor of a module by the rank's share."""
    whole = getattr(module, name)
    if any(count % axis.size for count in cut.units()):
        counts = " and ".join(str(count) for count in cut.units())
        what = "hidden units" if cut.unit == 1 and cut.dim == 0 else "heads"
        raise BadSetting(KEY, f"{axis.name}:{axis.size} cannot share out the {counts} {what} of {part}: use a divisor")
    local = cut.local(whole.data, axis).contiguous()
    if isinstance(whole, nn.Parameter):
        setattr(module, name, nn.Parameter(local, whole.requires_grad))
    else:
        setattr(module, name, local)
    return cut


def enter(axis: Axis) -> Any:
    """What a cut part reads is used by all ranks, each for its share."""

    def hook(part: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        x, *rest = given
        if rest and rest[0].memory is not None:
            rest[0] = replace(rest[0], memory=shared(rest[0].memory, axis))
        return (shared(x, axis), *rest)

    return hook


def heads_cut(counts: Sequence[int], width: int) -> Columns:
    """Projections to several groups of heads, one after another."""
    return Columns(tuple(count * width for count in counts), width)
