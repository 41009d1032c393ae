"""What each process of a grid would hold and send, without the processes: the model is on the meta device, where
tensors have a shape and no numbers, and the other ranks are imagined. What FSDP sends is known from its layout.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem
from headway.config.parallel import AXES, KEY, Layout, layout_of, refuse_impossible
from headway.data.files import Progress, silent
from headway.lab.plan_formulas import by_formula, put_together, sharding, share_of, size_of
from headway.lab.trace import BACKWARD, GRADIENTS, Sending, Traced, Watch
from headway.nn.collectives import Axis
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
    gathered: int  # weights and gradients of sharded blocks while they are computed
    sent: Bytes  # by axis and kind of collective, such as "tensor all-reduce"
    formulas: Bytes  # the same, where there is a formula

    @property
    def memory(self) -> int:
        return self.weights + self.gradients + self.moments + self.activations + self.gathered

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
            rows = processes // tensor // context
            yield from grids(rows, context, tensor)


def grids(rows: int, context: int, tensor: int) -> Iterator[Layout]:
    for shard in divisors(rows):
        sizes = {"data": rows // shard, "shard": shard, "context": context, "tensor": tensor}
        yield Layout({axis: size for axis, size in sizes.items() if size > 1} or {"data": 1})


def divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


class ImaginedShares(Shares):
    """Weights that are sharded are whole here, and gradients are as long as the share of the first process."""

    def sharded(self, axis: Axis) -> None:
        return None

    def gradient(self, name: str) -> Tensor | None:
        gradient, processes = super().gradient(name), self.ranks["shard"].size
        return gradient if gradient is None or gradient.ndim == 0 else gradient[: -(-len(gradient) // processes)]


@dataclass(frozen=True)
class Rehearsal:
    """A step of one process without numbers."""

    model: nn.Module
    shares: Shares
    rows: int  # of a micro-batch
    time: int
    predicted: int  # targets of a micro-batch
    activations: int  # bytes, without the weights
    sendings: list[Sending]  # of a micro-batch, and of the gradients at the end

    def sent(self, accumulate: int = 1) -> Bytes:
        """In a step, by axis and kind."""
        total: Bytes = {}
        for each in self.sendings:
            name, times = f"{each.axis} {each.kind}", 1 if each.phase == GRADIENTS else accumulate
            total[name] = total.get(name, 0) + times * each.bytes
        return total


def rehearse(task: Task, layout: Layout) -> Rehearsal:
    spec = task.recipe.train
    longest = task.splits().train.longest()
    time = longest.inputs.shape[1]
    rows = spec.batch_size if spec.batch_tokens is None else max(spec.batch_tokens // time, 1)
    rows = -(-min(rows, len(task.splits().train)) // (layout.size("data") * layout.size("shard") * spec.accumulate))
    watch = Watch()
    axes: dict[str, Axis] = {each: Traced(each, size // 2, size, watch=watch) for each, size in all_sizes(layout)}
    with META:
        model = task.model().train()
    shares = ImaginedShares(model, Ranks(axes))
    watch.follow(model)
    kept: dict[int, Tensor] = {weight.untyped_storage()._cdata: weight for weight in model.parameters()}
    weights = size_of(kept.values())

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    batch = longest.take(torch.zeros(rows, dtype=torch.long)).to(META)
    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = task.loss(model, batch).total
        watch.phase = BACKWARD
        loss.backward()
    except RuntimeError as error:
        if "meta" not in str(error):
            raise
        raise Problem(f"{task.recipe.task} computes with numbers that a plan does not have") from None
    watch.phase = GRADIENTS
    shares.add_up(loss.detach())
    activations = sum(each.untyped_storage().nbytes() for each in kept.values()) - weights
    return Rehearsal(model, shares, rows, time, batch.targets.numel(), activations, watch.sendings)


def all_sizes(layout: Layout) -> list[tuple[str, int]]:
    return [(axis, layout.size(axis)) for axis in AXES]


def plan(task: Task, layout: Layout) -> Plan:
    return plan_of(task, layout, rehearse(task, layout))


def plan_of(task: Task, layout: Layout, done: Rehearsal) -> Plan:
    trained = [weight for weight in done.model.parameters() if weight.requires_grad]
    processes, accumulate = layout.size("shard"), task.recipe.train.accumulate
    weights, gradients = (share_of(each, processes) for each in (done.model.parameters(), trained))
    sent = done.sent(accumulate) | {
        f"shard {kind}": count for kind, count in sharding(done.model, processes, accumulate).items()
    }
    formulas = dict(by_formula(done.model, layout, done.rows, done.time, done.predicted, accumulate))
    moments = moments_of(task.recipe.train.optimizer) * gradients
    whole = put_together(done.model) if processes > 1 else 0
    memory = weights, gradients, moments, done.activations, whole
    return Plan(str(layout), layout.world, *memory, sent, formulas)
