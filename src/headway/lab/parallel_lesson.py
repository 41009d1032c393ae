"""What each kind of parallelism does to a model: which weights stand where, what is sent at which part, and what
becomes of a network that reads its neighbours."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem
from headway.config.parallel import AXES, KEY, Layout, layout_of, refuse_impossible
from headway.data.files import Progress, silent
from headway.data.storage import write_whole
from headway.lab.interference import Interference, interferences
from headway.lab.parallel_picture import svg_of
from headway.lab.plan import Plan, Rehearsal, plan_of, rehearse
from headway.lab.plan_formulas import share_of, units
from headway.lab.trace import BACKWARD, FORWARD, GRADIENTS, LOSS, Sending, in_bytes, in_words
from headway.recipes import task as task_of
from headway.tasks import Task
from headway.tasks.abilities import TrainsItself, can
from headway.training.shares import refuse_untried

Span = tuple[float, float]
WHOLE: tuple[Span, ...] = ((0.0, 1.0),)
SILENT_NAMES = {"sublayer", "stack", ""}  # that say nothing to a reader


@dataclass(frozen=True)
class WeightShare:
    name: str
    shape: tuple[int, ...]
    dim: int | None  # which is shared out; None: all processes have all of it
    spans: tuple[tuple[Span, ...], ...]  # for each process, where its shares begin and end, from 0 to 1


@dataclass(frozen=True)
class PartShare:
    """A part of the model: where its weights stand, and what a process sends there, in bytes by kind of collective."""

    name: str
    weights: tuple[WeightShare, ...] = ()
    forward: dict[str, int] = field(default_factory=dict)
    backward: dict[str, int] = field(default_factory=dict)
    blocks: int = 1  # how many blocks have one like it

    @property
    def in_words(self) -> tuple[str, str]:
        """What is sent in the forward and in the backward pass."""
        return in_words(self.forward), in_words(self.backward)

    @property
    def largest(self) -> WeightShare | None:
        """The one that is drawn: a matrix stands for its bias."""
        return max(self.weights, key=lambda weight: len(weight.shape), default=None)


@dataclass(frozen=True)
class Kind:
    """One kind of parallelism alone."""

    axis: str
    processes: int
    shares_out: str
    rows: tuple[tuple[Span, ...], ...] = ()  # of a batch, for each process
    tokens: tuple[tuple[Span, ...], ...] = ()  # of a row
    parts: tuple[PartShare, ...] = ()
    gradients: dict[str, int] = field(default_factory=dict)  # sent after the backward pass
    plan: Plan | None = None
    refused: str = ""

    @property
    def gradients_in_words(self) -> str:
        return in_words(self.gradients)

    @property
    def in_a_step(self) -> str:
        """What a process sends in all, beside the formulas; at a part, bytes are those of one block."""
        sent, formulas = ({}, {}) if self.plan is None else (self.plan.sent, self.plan.formulas)
        words = []
        for name, count in sent.items():
            formula = formulas.get(name)
            beside = (
                ""
                if formula is None
                else " (formula: the same)"
                if formula == count
                else f" (formula: {in_bytes(formula)})"
            )
            words.append(f"{name.partition(' ')[2]} {in_bytes(count)}{beside}")
        return f"in a step, of all blocks: {'; '.join(words) or 'nothing'}"


@dataclass(frozen=True)
class ParallelLesson:
    recipe: str
    kinds: tuple[Kind, ...]
    neighbours: tuple[Interference, ...]
    changes: str  # to the recipe's model, where it reads neighbours

    def save(self, path: str | Path) -> None:
        """Draw it as SVG."""
        write_whole(Path(path), self._repr_svg_())

    def _repr_svg_(self) -> str:
        return svg_of(self)


def lesson(recipe: str, overrides: Sequence[str], processes: int, show: Progress = silent) -> ParallelLesson:
    """The axes that ``train.parallel`` names, each alone; without it, all of them with so many processes."""
    task = task_of(recipe, overrides)
    if can(task, TrainsItself):
        raise Problem(f"{task.recipe.task} trains in one process: there is nothing to share out")
    refuse_impossible(task.recipe.train)
    asked = {axis: size for axis, size in layout_of(task.recipe.train).sizes.items() if size > 1}
    task.prepare(show)
    sizes = asked or dict.fromkeys(AXES, processes)
    kinds = []
    for number, (axis, size) in enumerate(sizes.items()):
        show(f"sharing out along {axis}", number / len(sizes))
        kinds.append(kind_of(task, axis, size))
    show("computing with neighbours", 1.0)
    changes, results = interferences(task, max(size for size in sizes.values()) if asked else processes)
    return ParallelLesson(recipe, tuple(kinds), tuple(results), changes)


def kind_of(task: Task, axis: str, size: int) -> Kind:
    layout, own = Layout({axis: size}), Kind(axis, size, AXES[axis])
    try:
        refuse_untried(replace(task.recipe.train, parallel=str(layout), processes=1, nodes=1))
        done = rehearse(task, layout)
    except Problem as problem:
        if isinstance(problem, BadSetting) and problem.key != KEY and not problem.key.startswith("train."):
            raise
        return replace(own, refused=str(problem))
    cut, whole = shares_of_a_line(size), (WHOLE,) * size
    return replace(
        own,
        rows=cut if axis in ("data", "shard") else whole,
        tokens=cut if axis == "context" else whole,
        parts=tuple(alike(parts_of(done, axis, size))),
        gradients=added(each for each in done.sendings if each.phase == GRADIENTS),
        plan=plan_of(task, layout, done),
    )


def shares_of_a_line(size: int) -> tuple[tuple[Span, ...], ...]:
    return tuple(((rank / size, (rank + 1) / size),) for rank in range(size))


def parts_of(done: Rehearsal, axis: str, size: int) -> Iterator[PartShare]:
    """In the order of the model: what has weights of its own, or sends something."""
    wide, sendings = dict(done.model.named_modules()), [*done.sendings]
    if axis == "shard":
        sendings += list(by_fsdp(done.model, size))
    trunk = trunk_of(wide)
    for name, part in wide.items():
        weights = tuple(
            weight_share(done, f"{name}.{own}".lstrip("."), own, weight, axis, size)
            for own, weight in part.named_parameters(recurse=False)
        )
        here = [each for each in sendings if each.part == name and each.phase != GRADIENTS]
        forward, backward = (added(each for each in here if each.phase == phase) for phase in (FORWARD, BACKWARD))
        if weights or here:
            yield PartShare(readable(name, trunk), weights, forward, backward)
    if of_loss := added(each for each in sendings if each.part == LOSS):
        yield PartShare(LOSS, forward=of_loss)


def by_fsdp(model: nn.Module, size: int) -> Iterator[Sending]:
    for name, weights in units(model):
        share, trained = share_of(weights, size), share_of([each for each in weights if each.requires_grad], size)
        yield Sending("shard", "all-gather", FORWARD, name, share)
        yield Sending("shard", "all-gather", BACKWARD, name, share)
        yield Sending("shard", "reduce-scatter", BACKWARD, name, size * trained)


def weight_share(done: Rehearsal, full: str, name: str, weight: Tensor, axis: str, size: int) -> WeightShare:
    cut, shape = done.shares.cuts.get(full), list(weight.shape)
    if axis == "shard" and weight.ndim > 0:
        rows = -(-shape[0] // size)
        ends = [min(rank * rows, shape[0]) / shape[0] for rank in range(size + 1)]
        return WeightShare(name, tuple(shape), 0, tuple(((start, end),) for start, end in itertools.pairwise(ends)))
    if cut is None:
        return WeightShare(name, tuple(shape), None, (WHOLE,) * size)
    shape[cut.dim] = length = cut.length
    spans = ([(start / length, end / length) for start, end in cut.spans(rank, size)] for rank in range(size))
    return WeightShare(name, tuple(shape), cut.dim, tuple(tuple(each) for each in spans))


def trunk_of(parts: dict[str, nn.Module]) -> str:
    """What the names of a model with one stack have in common: nothing that a reader needs."""
    stacks = [name for name, part in parts.items() if hasattr(part, "share_tokens")]
    return stacks[0].rpartition("stack")[0] if len(stacks) == 1 else ""


def readable(name: str, trunk: str) -> str:
    if not name:
        return "outside of the blocks"
    words = [word for word in name.removeprefix(trunk).split(".") if word not in SILENT_NAMES]
    return ".".join(words) or "around the blocks"


def added(sendings: Iterable[Sending]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in sendings:
        total[each.kind] = total.get(each.kind, 0) + each.bytes
    return total


def alike(parts: Iterable[PartShare]) -> list[PartShare]:
    """One for all blocks, where they do not differ: ``blocks.0-5.mixer``."""
    groups: dict[str, list[tuple[int, PartShare]]] = {}
    for part in parts:
        number = re.search(r"\bblocks\.(\d+)", part.name)
        pattern = re.sub(r"\bblocks\.\d+", "blocks.*", part.name)
        same = replace(part, name=pattern)
        key = f"{pattern} {same}"
        groups.setdefault(key, []).append((int(number[1]) if number else 0, same))
    made = []
    for members in groups.values():
        numbers, part = [number for number, _ in members], members[0][1]
        span = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        made.append(replace(part, name=part.name.replace("blocks.*", f"blocks.{span}"), blocks=len(members)))
    return made
