"""Which kinds of parallelism interfere with a feed-forward network that also reads its neighbours?

The recipe's model, with such a network, computes one loss and its gradient in float64: alone, and shared out among
ranks, each of which is a thread. Along ``context``, a slice of a sequence does not have the neighbours of the tokens at
its ends: they are on another rank. With a halo they are sent; without one they are read as zeros, and nothing fails.
"""

from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.parallel import AXES
from headway.config.recipe import ModelSpec
from headway.data.batch import Batch
from headway.lab.threads import Blind, Threaded, together
from headway.nn.collectives import Axis
from headway.nn.feedforward import Neighbourhood
from headway.tasks import Task
from headway.training.shares import Ranks, Shares

ROWS = 2  # of each rank
LARGEST = 20_000_000  # weights, of which each rank has a copy in float64
SMALLER: dict[str, Any] = {
    "width": 64,
    "heads": 4,
    "kv_heads": None,
    "hidden": None,
    "layers": 2,
    "encoder_layers": None,
}
NOISE = 0.1  # added to initial weights, some of which are zeros


@dataclass(frozen=True)
class Interference:
    """How far a shared-out model is off, beside the same model in one process."""

    axis: str
    processes: int
    halo: bool | None  # None: nothing is cut between neighbours
    loss: float | None = None
    gradient: float | None = None  # the largest difference of any number
    first: tuple[float, ...] = ()  # by token: after the first network that reads its neighbours,
    last: tuple[float, ...] = ()  # and after the last block
    refused: str = ""

    exact: ClassVar[float] = 1e-9  # errors below it are the rounding of float64

    @property
    def is_right(self) -> bool:
        return self.loss is not None and self.gradient is not None and max(self.loss, self.gradient) < self.exact

    @property
    def title(self) -> str:
        halo = {None: "", False: ", without a halo", True: ", with a halo"}[self.halo]
        return f"{self.axis}:{self.processes}{halo}"

    @property
    def cuts(self) -> list[int]:
        """The tokens with which slices of a sequence begin, but for the first."""
        length = len(self.first)
        return [] if self.axis != "context" else list(range(0, length, -(-length // self.processes) or 1))[1:]


@dataclass(frozen=True)
class Outcome:
    rows: range
    loss: Tensor
    gradients: dict[str, Tensor]
    first: Tensor
    last: Tensor


def interferences(task: Task, processes: int) -> tuple[str, list[Interference]]:
    """What has been changed in the model, and a result for each axis; for ``context``, without a halo and with it."""
    task, changes = with_neighbours(task)
    model = shaken(task)
    data = task.splits().train
    few = replace(task.recipe.train, batch_size=min(ROWS * processes, len(data)), batch_tokens=None)
    batch = data.batch(data.sampler(few).rows_at(1))
    alone = computed(task, deepcopy(model), batch)
    results = []
    for axis, kind, halo in (
        ("data", Threaded, None),
        ("tensor", Threaded, None),
        ("context", Blind, False),
        ("context", Threaded, True),
    ):
        if axis == "data" and len(batch) < processes:
            continue

        def body(own: Axis) -> Outcome:
            return computed(task, deepcopy(model), batch, own)

        try:
            ranks = together(axis, processes, body, kind)
        except Problem as problem:
            results.append(Interference(axis, processes, halo, refused=str(problem)))
            continue
        results.append(compared(axis, processes, halo, alone, ranks))
    return changes, results


def with_neighbours(task: Task) -> tuple[Task, str]:
    """The task with a model that reads neighbours and is small enough, and what was changed."""
    spec, changes = task.recipe.model, {}
    if not spec.feedforward.startswith("neighbourhood"):
        changes["feedforward"] = "neighbourhood(before=2, after=0)" if looks_back(task) else "neighbourhood"
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in changed(task, changes).model().parameters())
    if weights > LARGEST:
        changes |= {name: value for name, value in SMALLER.items() if getattr(spec, name) != value}
    words = " ".join(f"model.{name}={value}" for name, value in changes.items())
    return changed(task, changes), words


def looks_back(task: Task) -> bool:
    """Whether the model may not look ahead."""
    try:
        with torch.device("meta"):
            changed(task, {"feedforward": "neighbourhood"}).model()
    except Problem:
        return True
    return False


def changed(task: Task, changes: dict[str, Any]) -> Task:
    own = copy(task)
    own.recipe = replace(task.recipe, model=replace(task.recipe.model, **(without_dropout() | changes)))
    return own


def without_dropout() -> dict[str, Any]:
    return {name: 0.0 for name in vars(ModelSpec()) if name.endswith("dropout")}


def shaken(task: Task) -> nn.Module:
    """Initial weights by the recipe's seed, with noise: some begin as zeros, which would hide what is wrong."""
    with torch.random.fork_rng():
        torch.manual_seed(task.recipe.train.seed)
        model = task.model().double()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(NOISE * torch.randn_like(weight))
    return model


def computed(task: Task, model: nn.Module, batch: Batch, axis: Axis | None = None) -> Outcome:
    seen: dict[type[nn.Module], Tensor] = {}

    def noting(part: nn.Module, given: Any, states: Tensor) -> None:
        seen.setdefault(type(part), states.detach())

    shares = None if axis is None else Shares(model, Ranks({name: Axis(name) for name in AXES} | {axis.name: axis}))
    for part in model.modules():
        if isinstance(part, Neighbourhood) or hasattr(part, "share_tokens"):
            part.register_forward_hook(noting)
    own = batch.take(slice(axis.rank, None, axis.size)) if axis is not None and axis.name == "data" else batch
    loss = task.loss(model, own).total / batch.count
    loss.backward()
    total = loss.detach() if shares is None else shares.add_up(loss.detach())
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    gradients = found if shares is None else shares.whole(found)
    first = next(states for part, states in seen.items() if part is Neighbourhood)
    last = next(states for part, states in seen.items() if part is not Neighbourhood)
    return Outcome(range(len(own)), total, gradients, first, last)


def compared(axis: str, processes: int, halo: bool | None, alone: Outcome, ranks: list[Outcome]) -> Interference:
    own = ranks[0]
    gradient = max(float((own.gradients[name] - each).abs().max()) for name, each in alone.gradients.items())
    loss = float((own.loss - alone.loss).abs())
    if len(alone.first) < len(alone.rows):  # packed into one row
        return Interference(axis, processes, halo, loss, gradient)
    firsts, lasts = [each.first for each in ranks], [each.last for each in ranks]
    if axis == "context":
        first, last = torch.cat(firsts, dim=1)[:, : alone.first.shape[1]], lasts[0]
    elif axis == "data":
        first, last = (interleaved(each, like) for each, like in ((firsts, alone.first), (lasts, alone.last)))
    else:
        first, last = firsts[0], lasts[0]
    off = by_token(first, alone.first), by_token(last, alone.last)
    return Interference(axis, processes, halo, loss, gradient, *off)


def by_token(states: Tensor, expected: Tensor) -> tuple[float, ...]:
    return tuple((states - expected).abs().amax(dim=(0, 2)).tolist())


def interleaved(parts: list[Tensor], like: Tensor) -> Tensor:
    """The rows of all ranks as the batch had them; padding that a rank did not need is as it was."""
    whole = like.clone()
    for rank, part in enumerate(parts):
        whole[rank :: len(parts), : part.shape[1]] = part
    return whole
