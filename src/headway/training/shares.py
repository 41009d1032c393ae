"""What each process has of a model: its place in the grid, and a model of which it has a share.

A model is built whole, then cut along ``tensor`` (heads and hidden units, nn/cutting), told to compute slices of
sequences along ``context`` (models/stack), and its weights are sharded block by block along ``shard`` (torch's FSDP2).
Its optimizers are made afterwards: before, they would have weights that never move. Checkpoints have whole weights
under their usual names, so that any grid can go on with them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.optim import SGD, Optimizer

from headway.config.errors import BadSetting
from headway.config.parallel import AXES, KEY, Layout, layout_of
from headway.config.recipe import TrainSpec
from headway.nn.collectives import Axis, local_part
from headway.nn.cutting import Cut, cut_model
from headway.training.muon import Muon


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
        return any(self[name].size > 1 for name in ("shard", "context", "tensor"))

    @property
    def rows(self) -> tuple[int, int]:
        """Which share of a batch's rows this process has, and of how many."""
        data, shard = self["data"], self["shard"]
        return data.rank * shard.size + shard.rank, data.size * shard.size


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
    "train.grains": lambda spec: spec.grains is not None,
    "train.precision": lambda spec: spec.precision == "fp16",
}


def refuse_untried(spec: TrainSpec) -> None:
    sizes = layout_of(spec).sizes
    axes = [axis for axis in ("shard", "context", "tensor") if sizes.get(axis, 1) > 1]
    if axes and (key := next((key for key, is_set in UNTRIED.items() if is_set(spec)), None)):
        raise BadSetting(key, f"{getattr(spec, key[6:])} does not work with {axes[0]} parallelism: leave it out")


class Shares:
    """The shares of one process in a model that is cut."""

    def __init__(self, model: nn.Module, ranks: Ranks):
        self.model, self.ranks = model, ranks
        self.cuts: dict[str, Cut] = {}
        self.partial: list[tuple[Axis, list[str]]] = []  # weights with a share of the gradient on each rank
        if ranks["tensor"].size > 1:
            self.cuts, inside = cut_model(model, ranks["tensor"])
            self.partial.append((ranks["tensor"], names_of(model, inside)))
        if ranks["context"].size > 1:
            stacks: list[Any] = [part for part in model.modules() if hasattr(part, "share_tokens")]
            if not stacks:
                raise BadSetting(KEY, "this model has no stack of blocks that reads sequences: leave context out")
            inside = [weight for stack in stacks for weight in stack.share_tokens(ranks["context"])]
            self.partial.append((ranks["context"], names_of(model, inside)))
        self.mesh: Any = None
        self.scalars: list[str] = []  # which FSDP leaves alone
        if ranks["shard"].size > 1:
            self.scalars = names_of(model, scalars_of(model))
            self.mesh = self.sharded(ranks["shard"])
            self.partial.append((ranks["shard"], self.scalars))
        if ranks["data"].size > 1:
            self.partial.append((ranks["data"], names_of(model, model.parameters())))
        self.weights = dict(model.named_parameters())

    def sharded(self, axis: Axis) -> Any:
        return shard(self.model, axis, scalars_of(self.model))

    def adapt(self, optimizers: Iterable[Optimizer]) -> None:
        """torch has no fused SGD of sharded weights, and Muon needs whole matrices."""
        names: dict[Tensor, str] = {weight: name for name, weight in self.weights.items()}
        for optimizer in optimizers:
            if self.mesh is not None and isinstance(optimizer, SGD):
                for group in optimizer.param_groups:
                    group |= {"fused": False, "foreach": True}
            if isinstance(optimizer, Muon) and (self.mesh is not None or self.cuts):
                optimizer.share_out(
                    lambda weight, mean: self.joined(names[weight], self.placed(names[weight], mean)),
                    lambda weight, update: self.share(names[weight], update),
                )

    def placed(self, weight: str, local: Tensor) -> Tensor:
        """What this process has of a tensor that is sharded as a weight is, as such a tensor."""
        like: Any = self.weights[weight]
        if self.mesh is None or not hasattr(like, "to_local"):
            return local
        from torch.distributed.tensor import DTensor

        return DTensor.from_local(local, self.mesh, like.placements, shape=like.shape, stride=like.stride())

    def add_up(self, loss: Tensor) -> Tensor:
        """Make the gradients of all weights complete, and return the loss of all rows."""
        for axis, names in self.partial:
            if gradients := [grad for name in names if (grad := self.gradient(name)) is not None]:
                total = axis.sum(torch.cat([each.flatten() for each in gradients]))
                total = total / self.scale if axis.name == "shard" else total
                for gradient, own in zip(gradients, total.split([each.numel() for each in gradients]), strict=True):
                    gradient.copy_(own.view_as(gradient))
        for name in ("data", "shard"):
            loss = self.ranks[name].sum(loss) if self.ranks[name].size > 1 else loss
        return loss / self.scale

    @property
    def scale(self) -> int:
        """What a loss has to be multiplied by before its backward pass: FSDP takes the mean over its processes."""
        return self.ranks["shard"].size

    def gradient(self, name: str) -> Tensor | None:
        """What this process has of it."""
        gradient = self.weights[name].grad
        return None if gradient is None else local_part(gradient)

    def norm(self) -> Tensor:
        """Of the whole gradient: what is cut is summed over the ranks, what all of them have counts once."""
        cut = self.squares(name for name in self.weights if name in self.cuts)
        cut = self.ranks["tensor"].sum(cut) if self.cuts else cut
        both = cut + self.squares(self.weights.keys() - self.cuts.keys() - {*self.scalars})
        both = both if self.mesh is None else self.ranks["shard"].sum(both)
        return (both + self.squares(self.scalars)).sqrt()

    def squares(self, names: Iterable[str]) -> Tensor:
        """The sum of the squares of the gradients that this process has; in the order of the weights."""
        own = {*names}
        total = torch.zeros((), device=next(iter(self.weights.values())).device)
        for name in self.weights:
            if name in own and (gradient := self.gradient(name)) is not None:
                total = total + gradient.square().sum()
        return total

    def clip(self, norm: float, most: float) -> None:
        for name in self.weights:
            if (gradient := self.gradient(name)) is not None:
                gradient.mul_(min(most / (norm + 1e-6), 1.0))

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Named as in checkpoints: a weight, or ``weight:moment``. All ranks call this together."""
        # In one order: a file is read in another one by each process, and they would put together what differs.
        return {name: self.joined(name.partition(":")[0], tensors[name]) for name in sorted(tensors)}

    def joined(self, weight: str, tensor: Tensor) -> Tensor:
        cut, tensor = self.cuts.get(weight), getattr(tensor, "full_tensor", lambda: tensor)()
        return tensor if cut is None or tensor.ndim == 0 else cut.whole(tensor, self.ranks["tensor"])

    def local(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The other way: this rank's share of each."""
        return {name: self.share(name.partition(":")[0], tensor) for name, tensor in tensors.items()}

    def share(self, weight: str, tensor: Tensor) -> Tensor:
        cut = self.cuts.get(weight)
        fits = cut is not None and tensor.ndim > cut.dim and tensor.shape[cut.dim] == sum(cut.blocks)
        own = cut.local(tensor, self.ranks["tensor"]).contiguous() if cut is not None and fits else tensor
        if self.mesh is None or weight not in self.weights or own.ndim == 0:
            return own
        from torch.distributed.tensor import Shard, distribute_tensor

        return distribute_tensor(own, self.mesh, [Shard(0)], src_data_rank=None)


def names_of(model: nn.Module, weights: Iterable[Tensor]) -> list[str]:
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return [names[weight] for weight in weights]


def sharding_units(model: nn.Module) -> dict[str, nn.Module]:
    """What is put together at once: each block, and then the model with all that is in none."""
    names = {part: name for name, part in model.named_modules()}
    stacks: list[Any] = [part for part in names if hasattr(part, "share_tokens")]
    return {names[part]: part for part in [*(block for stack in stacks for block in stack.blocks), model]}


def scalars_of(model: nn.Module) -> list[Tensor]:
    """Numbers cannot be shared out: all processes have them."""
    return [weight for weight in model.parameters() if weight.ndim == 0]


def shard(model: nn.Module, axis: Axis, scalars: Iterable[Tensor]) -> Any:
    """Each process keeps a share of every weight, of its gradient and of its moments; a block's weights are put
    together where it is computed (Zhao et al. 2023, https://arxiv.org/abs/2304.11277)."""
    from torch.distributed.device_mesh import DeviceMesh  # importing takes long, and few need it
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(axis.group, next(model.parameters()).device.type, mesh_dim_names=(axis.name,))
    left_alone: Any = {*scalars}
    for part in sharding_units(model).values():  # the model, too, is taken apart after use: it may be saved
        fully_shard(part, mesh=mesh, reshard_after_forward=True, ignored_params=left_alone)
    return mesh
