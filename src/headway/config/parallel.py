"""How many processes train together, and what they share out among each other.

    train.parallel="data:2,tensor:4"        8 processes: two halves of each batch, four parts of each layer

The leftmost axis is the outermost: neighbouring processes, on one machine, are those of the last. ``train.processes=N``
is short for ``data:N``.
"""

import math
import re
from dataclasses import dataclass

from headway.config.errors import BadSetting, did_you_mean
from headway.config.recipe import TrainSpec

AXES = {
    "data": "the rows of a batch",
    "shard": "the rows of a batch, and the weights and moments between their uses",
    "context": "the tokens of each row",
    "tensor": "the heads and hidden units of each layer",
}
KEY = "train.parallel"
MOST = 65_536  # processes


@dataclass(frozen=True)
class Layout:
    """The processes as a grid; the sizes of its axes, the outermost first."""

    sizes: dict[str, int]
    nodes: int = 1

    @property
    def world(self) -> int:
        return math.prod(self.sizes.values())

    @property
    def per_node(self) -> int:
        return self.world // self.nodes

    def size(self, axis: str) -> int:
        return self.sizes.get(axis, 1)

    def __str__(self) -> str:
        return ",".join(f"{axis}:{size}" for axis, size in self.sizes.items())


def layout_of(spec: TrainSpec) -> Layout:
    """The grid that the settings ask for."""
    sizes = {"data": spec.processes} if spec.parallel is None else parse(spec.parallel)
    layout = Layout(sizes, spec.nodes)
    if spec.processes not in (1, layout.world):
        many = f"{layout} are {layout.world} processes, and train.processes={spec.processes}"
        raise BadSetting(KEY, f"{many}: leave train.processes out")
    if layout.world % spec.nodes:
        raise BadSetting("train.nodes", f"{layout.world} processes cannot be shared out among {spec.nodes} machines")
    return layout


def refuse_impossible(spec: TrainSpec) -> None:
    """Called when a recipe is checked."""
    layout = layout_of(spec)
    if spec.grains is None:
        return
    if spec.grains & (spec.grains - 1):
        raise BadSetting(
            "train.grains", f"{spec.grains} is not a power of two, such as {1 << spec.grains.bit_length()}"
        )
    if spec.grains % layout.world:
        more = 1 << (layout.world - 1).bit_length()
        own = f"{layout.world} processes cannot have the same number of {spec.grains} groups of rows"
        raise BadSetting("train.grains", f"{own}: use {more} processes, and grains that are a multiple of it")


def parse(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*:\s*([0-9]{1,6})\s*", part)
        if match is None:
            raise BadSetting(KEY, f"{text!r:.80} is not a list of axes and sizes, such as data:2,tensor:4")
        axis, size = match[1], int(match[2])
        if axis not in AXES:
            raise BadSetting(KEY, f"there is no axis {axis!r}; {did_you_mean(axis, AXES)}")
        if axis in sizes:
            raise BadSetting(KEY, f"{axis} is there twice")
        if size < 1:
            raise BadSetting(KEY, f"{axis}:{size} has no process: at least 1")
        sizes[axis] = size
    if math.prod(sizes.values()) > MOST:
        raise BadSetting(KEY, f"{math.prod(sizes.values()):,} processes are too many: at most {MOST:,}")
    return sizes


def refuse_several(spec: TrainSpec, why: str) -> None:
    """Called by what works in a single process only."""
    if layout_of(spec).world > 1:
        key = "train.processes" if spec.parallel is None else KEY
        raise BadSetting(key, f"{why}: leave it out")
