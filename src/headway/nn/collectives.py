"""What processes send each other inside a model, each with its gradient.

A process has a rank along each axis of the grid. Outside of the parts that are cut, all ranks of an axis hold the same
activations, and the same, complete gradients of them. A function leads into a cut part or out of it:

    shared      x          all ranks use it, each for a share of the result    gradient: the sum
    summed      sum of x   each rank has a summand                             gradient: as it is
    own         a slice    each rank goes on with its slice                    gradient: the slices, put together
    gathered    slices     put together, and used by all in the same way       gradient: the own slice
    spread      slices     put together, each rank uses them for its share     gradient: the own slice of the sum
    exchanged   slices along another dimension than before                     gradient: exchanged back
    with_halo   a slice    with the edges of its neighbours                    gradient: edges go back, and are added
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd import Function

from headway.config.errors import BadSetting

METERS: list[dict[tuple[str, str], int]] = []


@contextmanager
def sent() -> Iterator[dict[tuple[str, str], int]]:
    """Count the bytes that this process hands to collectives, by axis and kind."""
    meter: dict[tuple[str, str], int] = {}
    METERS.append(meter)
    try:
        yield meter
    finally:
        METERS.remove(meter)


@dataclass(frozen=True)
class Axis:
    """The processes that differ in their rank along one axis only."""

    name: str
    rank: int = 0
    size: int = 1
    group: Any = None

    def here(self) -> "Axis":
        """For those who watch: the axis as it is used at this place of a model."""
        return self

    def count(self, kind: str, x: Tensor) -> None:
        for meter in METERS:
            key = self.name, kind
            meter[key] = meter.get(key, 0) + x.numel() * x.element_size()

    def sum(self, x: Tensor) -> Tensor:
        self.count("all-reduce", x)
        return self.all_reduce(x.clone(memory_format=torch.contiguous_format))

    def gather(self, x: Tensor, dim: int) -> Tensor:
        self.count("all-gather", x)
        return torch.cat(self.all_gather(x.contiguous()), dim)

    def scatter_sum(self, x: Tensor, dim: int) -> Tensor:
        """The own slice of the sum: each rank gets a slice from each other."""
        self.count("reduce-scatter", x)
        return self.swap(torch.stack(x.chunk(self.size, dim))).sum(0)

    def exchange(self, x: Tensor, split: int, join: int) -> Tensor:
        self.count("all-to-all", x)
        return torch.cat(list(self.swap(torch.stack(x.chunk(self.size, split)))), join)

    def slice(self, x: Tensor, dim: int) -> Tensor:
        return x.chunk(self.size, dim)[self.rank]

    def neighbours(self, to_right: Tensor, to_left: Tensor) -> tuple[Tensor, Tensor]:
        """What the left and the right neighbour have sent; zeros beyond the ends. One collective: everyone else gets
        nothing."""
        sizes_in, sizes_out = [0] * self.size, [0] * self.size
        pieces, shapes = [], []
        for other, piece, back in ((self.rank - 1, to_left, to_right), (self.rank + 1, to_right, to_left)):
            if 0 <= other < self.size:
                sizes_in[other], sizes_out[other] = piece.numel(), back.numel()
                pieces.append(piece.flatten())
                shapes.append(back.shape)
        flat = torch.cat(pieces)
        self.count("halo", flat)
        received = self.swap(flat, sizes_out, sizes_in)
        parts = received.split([shape.numel() for shape in shapes])
        views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        from_left = views.pop(0) if self.rank > 0 else torch.zeros_like(to_right)
        from_right = views.pop(0) if self.rank < self.size - 1 else torch.zeros_like(to_left)
        return from_left, from_right

    def all_reduce(self, x: Tensor) -> Tensor:
        distributed.all_reduce(x, group=self.group)
        return x

    def all_gather(self, x: Tensor) -> list[Tensor]:
        slices = [torch.empty_like(x) for _ in range(self.size)]
        distributed.all_gather(slices, x, group=self.group)
        return slices

    def swap(self, x: Tensor, sizes_out: list[int] | None = None, sizes_in: list[int] | None = None) -> Tensor:
        """Row i goes to rank i; or as many numbers as the sizes say."""
        x = x.contiguous()
        received = torch.empty_like(x) if sizes_out is None else x.new_empty(sum(sizes_out))
        distributed.all_to_all_single(received, x, sizes_out, sizes_in, group=self.group)
        return received


class Imagined(Axis):
    """The other processes do not exist: what they would send has the right shape, and says nothing."""

    def all_reduce(self, x: Tensor) -> Tensor:
        return x

    def all_gather(self, x: Tensor) -> list[Tensor]:
        return [x] * self.size

    def swap(self, x: Tensor, sizes_out: list[int] | None = None, sizes_in: list[int] | None = None) -> Tensor:
        return x if sizes_out is None else x.new_empty(sum(sizes_out))


def local_part(tensor: Tensor) -> Tensor:
    """What this process has of a tensor that is sharded; any other one as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class Shared(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.axis.sum(gradients[0]), None


class Summed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        return axis.sum(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class Own(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis, dim: int) -> Tensor:
        ctx.axis, ctx.dim = axis, dim
        return axis.slice(x, dim).clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.axis.gather(gradients[0], ctx.dim), None, None


class Gathered(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis, dim: int, partly: bool) -> Tensor:
        ctx.axis, ctx.dim, ctx.partly = axis, dim, partly
        return axis.gather(x, dim)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        back = ctx.axis.scatter_sum if ctx.partly else ctx.axis.slice
        return back(gradients[0], ctx.dim), None, None, None


class Exchanged(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis, split: int, join: int) -> Tensor:
        ctx.axis, ctx.split, ctx.join = axis, split, join
        return axis.exchange(x, split, join)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.axis.exchange(gradients[0], ctx.join, ctx.split), None, None, None


class Halo(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis, before: int, after: int) -> Tensor:
        ctx.axis, ctx.before, ctx.after = axis, before, after
        left, right = axis.neighbours(x[:, x.shape[1] - before :], x[:, :after])
        return torch.cat([left, x, right], dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        gradient, before, after = gradients[0], ctx.before, ctx.after
        end = gradient.shape[1] - after
        of_right, of_left = gradient[:, end:], gradient[:, :before]
        first, last = ctx.axis.neighbours(of_right, of_left)  # of the first and the last tokens, from their readers
        own = gradient[:, before:end].clone()
        own[:, :after] += first
        own[:, own.shape[1] - before :] += last
        return own, None, None, None


def shared(x: Tensor, axis: Axis) -> Tensor:
    return Shared.apply(x, axis.here())


def summed(x: Tensor, axis: Axis) -> Tensor:
    return Summed.apply(x, axis.here())


def own(x: Tensor, axis: Axis, dim: int) -> Tensor:
    return Own.apply(x, axis.here(), dim)


def gathered(x: Tensor, axis: Axis, dim: int) -> Tensor:
    return Gathered.apply(x, axis.here(), dim, False)


def spread(x: Tensor, axis: Axis, dim: int) -> Tensor:
    return Gathered.apply(x, axis.here(), dim, True)


def exchanged(x: Tensor, axis: Axis, split: int, join: int) -> Tensor:
    return Exchanged.apply(x, axis.here(), split, join)


def with_halo(x: Tensor, axis: Axis, before: int, after: int) -> Tensor:
    """(B, T, D) -> (B, before + T + after, D)."""
    if max(before, after) > x.shape[1]:
        reach = f"a part that reads {before} tokens before and {after} after"
        few = f"needs as many in each share of a sequence, which has {x.shape[1]}"
        raise BadSetting("train.parallel", f"{reach} {few}: use less context")
    return Halo.apply(x, axis.here(), before, after)
