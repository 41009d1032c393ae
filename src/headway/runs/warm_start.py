"""To begin with the weights of another run: what it learned is kept, what a new task needs is new."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.nn.embedding import Embedding, OneHot
from headway.nn.lora import folded
from headway.nn.positions import Learned, Relative
from headway.runs.run import Run
from headway.tasks.task import Task
from headway.training.checkpoint import weights_of

ELSEWHERE = {  # what a decoder has by itself, other models have below these names, and may find below those
    "encoder.": ("encoder.", "", "decoder."),
    "decoder.": ("decoder.", ""),
    "reference.": ("decoder.", ""),  # a policy goes on from what it has become
    "": ("", "encoder.", "decoder."),
}


HEAD = "head."  # what tells classes apart


@dataclass(frozen=True)
class WarmStartReport:
    """Names of tensors, and of the first how many numbers they have."""

    source: Path
    step: int
    numbers: int
    taken: list[str]
    longer: list[str]  # of those, tables with more rows than there were: the rest is new
    new: list[str]  # begin as they would without a run
    left: list[str]  # there is no place for them

    def notes(self) -> list[str]:
        found = [f"begins with {self.source} at step {self.step:,}: {self.numbers:,} numbers, {in_words(self.taken)}"]
        found += [f"positions beyond those that it knew are new: {', '.join(self.longer)}"] if self.longer else []
        found += [f"new: {in_words(self.new)}"] if self.new else []
        return found + ([f"left behind: {in_words(self.left)}"] if self.left else [])


def in_words(names: list[str]) -> str:
    """``encoder.stack (25), encoder.embedding (1)``: by their first two words."""
    groups = Counter(".".join(name.split(".")[:2]) for name in names)
    return ", ".join(f"{group} ({count})" if count > 1 else group for group, count in groups.items())


def begin_with(model: nn.Module, task: Task, folder: str) -> WarmStartReport:
    """Put the weights of a run in the places of a task's model that have the same name and shape. What tells other
    labels apart is of no use."""
    run = Run(folder)
    skipped = () if labels_of(run.task) == labels_of(task) else (HEAD,)
    result = run.result()
    weights = folded(result.weights)
    taken: dict[str, str] = {}
    tables = {f"{name}.table.weight": part for name, part in model.named_modules()}
    with torch.no_grad():
        for name, tensor in weights_of(model).items():
            for theirs in () if name.startswith(skipped) else names_for(name):
                found = fitting(weights.get(theirs), tensor, tables.get(name))
                if found is not None:
                    tensor.copy_(found)
                    taken[name] = theirs
                    break
    if not taken:
        there, here = run.recipe.model.width, task.recipe.model.width
        why = f"it has model.width={there}, not {here}" if there != here else f"it is a run of {run.recipe.task}"
        raise Problem(f"start: nothing of {folder} fits into this model: {why}")
    if isinstance(model, PolicyWithReference) and model.reference is not None:  # new in both are the same
        model.reference.load_state_dict(model.decoder.state_dict())
    own = weights_of(model)
    return WarmStartReport(
        run.folder,
        result.step,
        sum(own[name].numel() for name in taken),
        list(taken),
        [name for name, theirs in taken.items() if own[name].ndim and len(own[name]) > len(weights[theirs])],
        [name for name in own if name not in taken],
        [name for name in weights if name not in taken.values()],
    )


def names_for(name: str) -> list[str]:
    """What a tensor of this name may be called in another model."""
    body = next(body for body in ELSEWHERE if name.startswith(body))
    return [theirs + name.removeprefix(body) for theirs in ELSEWHERE[body]]


def labels_of(task: Task) -> list[str] | None:
    return getattr(task, "labels", None)


def fitting(found: Tensor | None, wanted: Tensor, part: nn.Module | None) -> Tensor | None:
    """The table of a part may have had more rows, for tokens or positions that there are no more; or fewer, for
    positions that are new."""
    if found is None or found.shape[1:] != wanted.shape[1:] or found.ndim != wanted.ndim:
        return None
    if found.shape == wanted.shape:
        return found
    more = len(found) - len(wanted)
    first = abs(more) // 2 if isinstance(part, Relative) else 0  # its rows are distances, and 0 is in the middle
    if more > 0 and (type(part) in (Embedding, OneHot) or isinstance(part, Learned | Relative)):
        return found[first : first + len(wanted)]
    if more < 0 and isinstance(part, Learned | Relative):
        rows = wanted.clone()
        rows[first : first + len(found)] = found
        return rows
    return None
