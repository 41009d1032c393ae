"""What each process of a grid would hold and send, without the processes: the model is on the meta device, where
tensors have a shape and no numbers, and the other ranks are imagined.

Bytes are those of one training step that a process hands to collectives, beside what the formulas of the literature
give: with A the bytes of the activations (B, T, D) of this process, n the size of the axis, and P the bytes of weights,

    data       P
    tensor     2 A for each part that is cut, forwards and backwards; and 1 A of the memory that it reads
    context    all-to-all (2 H + 2 KV) K / D 2 A for each attention whose key heads n divides;
               otherwise all-gather 2 KV K / D A and reduce-scatter n times as many;
               halo 2 (before + after) B D for each part that reads neighbours, at the ends half of it;
               all-gather 2 A around the blocks; all-reduce P of the blocks
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem
from headway.config.parallel import AXES, KEY, Layout, layout_of, refuse_impossible
from headway.data.files import Progress, silent
from headway.nn.attention import SelfAttention
from headway.nn.collectives import Axis, Imagined, sent
from headway.nn.feedforward import Neighbourhood
from headway.recipes import task as task_of
from headway.recipes.size import moments_of
from headway.tasks import Task
from headway.tasks.abilities import TrainsItself, can
from headway.training.shares import UNTRIED, Ranks, Shares, refuse_untried

Bytes = dict[str, int]
META = torch.device("meta")


@dataclass(frozen=True)
class Plan:
    """For one process; the others hold and send the same, or, at the ends of a sequence, less."""

    parallel: str
    processes: int
    weights: int  # bytes, as are all that follow
    gradients: int
    moments: int
    activations: int
    sent: Bytes  # by axis and kind of collective, such as "tensor all-reduce"
    formulas: Bytes  # the same, where there is a formula

    @property
    def memory(self) -> int:
        return self.weights + self.gradients + self.moments + self.activations

    @property
    def traffic(self) -> int:
        return sum(self.sent.values())


def plans(recipe: str, overrides: Sequence[str], processes: int | None = None, show: Progress = silent) -> list[Plan]:
    """The plan that the settings ask for; or, for a number of processes, every grid of them that the model allows."""
    task = task_of(recipe, overrides)
    if can(task, TrainsItself):
        raise Problem(f"{task.recipe.task} trains in one process: there is nothing to plan")
    task.prepare(show)
    if processes is None:
        refuse_impossible(task.recipe.train)
        return [plan(task, layout_of(task.recipe.train))]
    made = []
    for layout in layouts(processes):
        try:
            refuse_untried(replace(task.recipe.train, parallel=str(layout), processes=1, nodes=1))
            made.append(plan(task, layout))
        except BadSetting as bad:
            if bad.key not in (KEY, *UNTRIED):
                raise
            refused = bad  # this model cannot be cut like that
    if not made:
        raise refused
    return made


def layouts(processes: int) -> Iterator[Layout]:
    for tensor in divisors(processes):
        for context in divisors(processes // tensor):
            sizes = {"data": processes // tensor // context, "context": context, "tensor": tensor}
            yield Layout({axis: size for axis, size in sizes.items() if size > 1} or {"data": 1})


def divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def plan(task: Task, layout: Layout) -> Plan:
    if layout.size("shard") > 1:
        instead = "plan data instead, and divide weights, gradients and moments by its size"
        raise Problem(f"shard cannot be planned: {instead}")
    spec = task.recipe.train
    longest = task.splits().train.longest()
    time = longest.inputs.shape[1]
    rows = spec.batch_size if spec.batch_tokens is None else max(spec.batch_tokens // time, 1)
    rows = -(-min(rows, len(task.splits().train)) // (layout.size("data") * spec.accumulate))
    axes: dict[str, Axis] = {axis: Imagined(axis, layout.size(axis) // 2, layout.size(axis)) for axis in AXES}
    with META:
        model = task.model().train()
    shares = Shares(model, Ranks(axes))
    kept: dict[int, Tensor] = {weight.untyped_storage()._cdata: weight for weight in model.parameters()}
    weights = size_of(kept.values())

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    with sent() as meter:
        try:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                loss = task.loss(model, longest.take(torch.zeros(rows, dtype=torch.long)).to(META)).total
            loss.backward()
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            raise Problem(f"{task.recipe.task} computes with numbers that a plan does not have") from None
        shares.add_up(loss.detach())
    trained = size_of(weight for weight in model.parameters() if weight.requires_grad)
    activations = sum(each.untyped_storage().nbytes() for each in kept.values()) - weights
    bytes_sent = {f"{axis} {kind}": count for (axis, kind), count in meter.items()}
    moments = moments_of(spec.optimizer) * trained
    formulas = dict(by_formula(model, layout, rows, time))
    return Plan(str(layout), layout.world, weights, trained, moments, activations, bytes_sent, formulas)


def size_of(tensors: Any) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def by_formula(model: nn.Module, layout: Layout, rows: int, time: int) -> Iterator[tuple[str, int]]:
    """The formulas above, for a model with one stack; none for others, such as an encoder and a decoder."""
    parts: list[Any] = list(model.modules())
    stack, *others = (part for part in parts if hasattr(part, "share_tokens"))
    if others:
        return
    weights = list(model.parameters())
    width = next(each for each in parts if hasattr(each, "vocabulary")).width
    size = weights[0].element_size()
    context, tensor = layout.size("context"), layout.size("tensor")
    activations = size * rows * -(-time // context) * width
    blocks = size_of(stack.blocks.parameters())
    if layout.size("data") > 1:
        yield "data all-reduce", size_of(weights) + size
    if tensor > 1:
        yield "tensor all-reduce", 2 * activations * sum(bool(getattr(part, "cuts", {})) for part in parts)
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
        yield "context halo", min(context - 1, 2) * halo * size * rows * width
