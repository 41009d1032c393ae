"""What each process has of a model: its place in the grid, and a model of which it has a share.

A model is built whole, then cut along ``tensor`` (heads and hidden units, nn/cutting) and told to compute slices of
sequences along ``context`` (models/stack). Its optimizers are made afterwards. Checkpoints have whole weights under
their usual names, so that any grid can go on with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, distributed, nn

from headway.config.errors import BadSetting
from headway.config.parallel import AXES, KEY, Layout, layout_of
from headway.config.recipe import TrainSpec
from headway.nn.collectives import Axis
from headway.nn.cutting import Cut, cut_model


@dataclass(frozen=True)
class Ranks:
    """The place of this process on each axis."""

    axes: dict[str, Axis] = field(default_factory=lambda: {name: Axis(name) for name in AXES})

    @classmethod
    def of_rows(cls, rank: int, processes: int) -> "Ranks":
        """All processes share the rows of a batch."""
        return cls({name: Axis(name) for name in AXES} | {"data": Axis("data", rank, processes)})

    def __getitem__(self, name: str) -> Axis:
        return self.axes[name]

    @property
    def cuts_model(self) -> bool:
        return self["context"].size > 1 or self["tensor"].size > 1


def ranks_of(layout: Layout, rank: int) -> Ranks:
    """All processes call this together; with rows alone to share out, the group is that of all."""
    if layout.world == layout.size("data"):
        return Ranks.of_rows(rank, layout.world)
    axes = {name: Axis(name) for name in AXES}
    grid = torch.arange(layout.world).view(*layout.sizes.values())
    place = (grid == rank).nonzero()[0].tolist()
    for number, (name, size) in enumerate(layout.sizes.items()):
        for members in grid.movedim(number, -1).reshape(-1, size).tolist():
            group = distributed.new_group(members)
            if rank in members:
                axes[name] = Axis(name, place[number], size, group)
    return Ranks(axes)


UNTRIED = {  # settings that have not been tried with a model that is cut
    "train.compile": lambda spec: spec.compile != "nothing",
    "train.optimizer": lambda spec: spec.optimizer.startswith("muon"),
    "train.grains": lambda spec: spec.grains is not None,
    "train.precision": lambda spec: spec.precision == "fp16",
}


def refuse_untried(spec: TrainSpec) -> None:
    sizes = layout_of(spec).sizes
    axes = [axis for axis in ("context", "tensor") if sizes.get(axis, 1) > 1]
    if axes and (key := next((key for key, is_set in UNTRIED.items() if is_set(spec)), None)):
        raise BadSetting(key, f"{getattr(spec, key[6:])} does not work with {axes[0]} parallelism: leave it out")


class Shares:
    """The shares of one process in a model that is cut."""

    def __init__(self, model: nn.Module, ranks: Ranks):
        self.model, self.ranks = model, ranks
        self.cuts: dict[str, Cut] = {}
        self.partial: list[tuple[Axis, list[Tensor]]] = []  # weights with a share of the gradient on each rank
        if ranks["tensor"].size > 1:
            self.cuts, inside = cut_model(model, ranks["tensor"])
            self.partial.append((ranks["tensor"], inside))
        if ranks["context"].size > 1:
            stacks: list[Any] = [part for part in model.modules() if hasattr(part, "share_tokens")]
            if not stacks:
                raise BadSetting(KEY, "this model has no stack of blocks that reads sequences: leave context out")
            inside = [weight for stack in stacks for weight in stack.share_tokens(ranks["context"])]
            self.partial.append((ranks["context"], inside))
        if ranks["data"].size > 1:
            self.partial.append((ranks["data"], list(model.parameters())))

    def add_up(self, loss: Tensor) -> Tensor:
        """Make the gradients of all weights complete, and return the loss of all rows."""
        for axis, weights in self.partial:
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            if gradients:
                total = axis.sum(torch.cat([each.flatten() for each in gradients]))
                for gradient, own in zip(gradients, total.split([each.numel() for each in gradients]), strict=True):
                    gradient.copy_(own.view_as(gradient))
        return self.ranks["data"].sum(loss) if self.ranks["data"].size > 1 else loss

    def norm(self) -> Tensor:
        """Of the whole gradient: what is cut is summed over the ranks, what all of them have counts once."""
        squares = {True: torch.zeros(()), False: torch.zeros(())}
        for name, weight in self.model.named_parameters():
            if weight.grad is not None:
                squares[name in self.cuts] = squares[name in self.cuts].to(weight.device) + weight.grad.square().sum()
        cut = self.ranks["tensor"].sum(squares[True]) if self.cuts else squares[True]
        return (cut + squares[False]).sqrt()

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Named as in checkpoints: a weight, or ``weight:moment``. All ranks call this together."""
        # In one order: a file is read in another one by each process, and they would put together what differs.
        return {name: self.joined(name.partition(":")[0], tensors[name]) for name in sorted(tensors)}

    def joined(self, weight: str, tensor: Tensor) -> Tensor:
        cut = self.cuts.get(weight)
        return tensor if cut is None or tensor.ndim == 0 else cut.whole(tensor, self.ranks["tensor"])

    def local(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The other way: this rank's share of each."""
        return {name: self.share(name.partition(":")[0], tensor) for name, tensor in tensors.items()}

    def share(self, weight: str, tensor: Tensor) -> Tensor:
        cut = self.cuts.get(weight)
        fits = cut is not None and tensor.ndim > cut.dim and tensor.shape[cut.dim] == sum(cut.blocks)
        return cut.local(tensor, self.ranks["tensor"]).contiguous() if cut is not None and fits else tensor
