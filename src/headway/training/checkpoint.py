"""Checkpoints: folders that are complete or not there.

    checkpoints/step-00000400/
        model.safetensors       the weights; with train.average the averaged ones
        last.safetensors        with train.average, the weights of the last step, from which training continues
        optimizer.safetensors   the optimizers' moments
        carried.safetensors     the task's state, if it has one: what a recurrent network carries from batch to batch
        state.json              the step, and the state of early stopping
        manifest.json           the SHA-256 of the other files: a flipped bit would load without an error

A checkpoint is written to a temporary folder, synced to the disk and renamed. Nothing here reads pickle.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from headway.config.errors import Problem
from headway.config.json_files import NUMBER, fits, load_json, refuse_odd_file
from headway.data.storage import new_folder, remove_folder, sha256_of, sweep
from headway.training.finite import first_bad_weight

WEIGHTS, MOMENTS, STATE, MANIFEST = "model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"
TASK_STATE, LAST = "carried.safetensors", "last.safetensors"
FILES = {WEIGHTS, MOMENTS, STATE, TASK_STATE, LAST}
STATE_SHAPE = {"progress": {"step": int, "best_step": int | None}, "scaler": {str: NUMBER}}


@dataclass(frozen=True)
class Progress:
    """The state of a run beside weights and moments."""

    step: int = 0
    seconds: float = 0.0
    best: float | None = None  # with early stopping: the best value of its metric,
    best_step: int | None = None  # the step of that,
    best_loss: float | None = None  # the loss at that step, and the lowest of all,
    lowest_loss: float | None = None
    stale: int = 0  # and evaluations without an improvement
    ended: str | None = None  # why training has ended


PROGRESS_SHAPE = {
    **{"step": int, "seconds": NUMBER, "best": NUMBER | None, "best_step": int | None, "stale": int},
    **dict.fromkeys(("best_loss", "lowest_loss"), NUMBER | None),
    "ended": str | None,
}


@dataclass(frozen=True)
class Checkpoint:
    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    progress: dict[str, Any]  # the step, and the state of early stopping
    scaler: dict[str, Any]  # of the loss in half precision
    task_state: dict[str, Tensor] = field(default_factory=dict)
    last: dict[str, Tensor] = field(default_factory=dict)  # weights of the last step, if ``weights`` are averaged

    @property
    def step(self) -> int:
        return self.progress["step"]


def folder_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def steps_in(folder: Path) -> list[int]:
    """The steps that have a checkpoint, newest first."""
    names = (path.name for path in folder.glob("step-*"))
    return sorted(
        (int(name[5:]) for name in names if re.fullmatch(r"step-([0-9]{8}|[1-9][0-9]{8,17})", name)), reverse=True
    )


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """A folder of the same step is replaced: it is damaged, or from before the run was resumed."""
    target = folder_of(folder, checkpoint.step)
    try:
        with new_folder(target, durable=True, replace=True) as new:
            save_file(checkpoint.weights, new.path / WEIGHTS)
            save_file(checkpoint.moments, new.path / MOMENTS)
            for name, tensors in {TASK_STATE: checkpoint.task_state, LAST: checkpoint.last}.items():
                if tensors:
                    save_file(tensors, new.path / name)
            state = {"progress": checkpoint.progress, "scaler": checkpoint.scaler}
            (new.path / STATE).write_text(json.dumps(state, indent=2))
            manifest = {path.name: sha256_of(path) for path in sorted(new.path.iterdir())}
            (new.path / MANIFEST).write_text(json.dumps(manifest, indent=2))
    except (OSError, SafetensorError) as error:
        kept = steps_in(folder)
        last = f"the last good one is {folder_of(folder, kept[0])}" if kept else "there is no earlier one"
        raise Problem(f"cannot write the checkpoint {target}: {error}; {last}") from error


def read(folder: Path, step: int) -> Checkpoint:
    path = folder_of(folder, step)
    try:
        names = intact_files(path)
        tensors = {name: tensors_in(path / name) for name in names - {STATE}}
        state = load_json(path / STATE, STATE_SHAPE)
        progress = asdict(Progress()) | state["progress"]
        if progress["step"] != step or progress.keys() != PROGRESS_SHAPE.keys() or not fits(progress, PROGRESS_SHAPE):
            raise ValueError(f"{STATE} does not describe step {step:,} of a run")
    except Problem:
        raise
    except (OSError, SafetensorError, ValueError, KeyError) as error:  # a KeyError: a type that torch does not have
        raise Problem(f"the checkpoint {path} is damaged: {error}") from error
    task_state, last = (tensors.get(name, {}) for name in (TASK_STATE, LAST))
    return Checkpoint(tensors[WEIGHTS], tensors[MOMENTS], progress, state["scaler"], task_state, last)


def intact_files(path: Path) -> set[str]:
    """The names of a checkpoint's files, which are what its manifest says. Nothing outside of the folder is opened."""
    refuse_link(path / MANIFEST)
    hashes = load_json(path / MANIFEST, {str: str})
    if unknown := hashes.keys() - FILES:
        raise ValueError(f"{min(unknown)!r} in {MANIFEST} is not a file of a checkpoint")
    for name in hashes.keys() | {WEIGHTS, MOMENTS, STATE}:
        file = path / name
        refuse_link(file)
        refuse_odd_file(file, memory())
        if sha256_of(file) != hashes.get(name):
            raise Problem(f"{file} is damaged: its SHA-256 is not the one in {MANIFEST}")
    return set(hashes)


def refuse_link(file: Path) -> None:
    if file.is_symlink():
        raise ValueError(f"{file.name} is a link to somewhere else")


def memory() -> int:
    """The bytes of memory of this machine: a larger file could not be used here."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def tensors_in(path: Path) -> dict[str, Tensor]:
    """Tensors of their own memory. ``safe_open`` would call back into Python, where torch turns an interrupt into an
    error, and a good file would seem to be damaged."""
    tensors = load(path.read_bytes())
    return {name: tensors.pop(name).clone() for name in list(tensors)}


def newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest intact checkpoint, and what is wrong with newer ones."""
    damaged: list[str] = []
    for step in steps_in(folder):
        try:
            return read(folder, step), damaged
        except Problem as problem:
            if not folder_of(folder, step).exists():  # the process that trains has removed it: there are newer ones
                return newest(folder)
            damaged.append(str(problem))
    return None, damaged


def prune(folder: Path, newest: int = 2) -> None:
    """Keep the newest ones (two, should the last be damaged), and the best step that each of them refers to."""
    steps = steps_in(folder)
    best_steps = {step: best for step in steps if (best := best_step(folder_of(folder, step))) is not UNREADABLE}
    kept = list(best_steps)[:newest]
    keep = {*kept, *(best_steps[step] for step in kept)}
    for step in best_steps.keys() - keep:
        remove_folder(folder_of(folder, step))
    sweep(folder, settled=-1)  # only one process writes here


UNREADABLE = -1


def best_step(path: Path) -> int | None:
    """The best step so far when this checkpoint was written."""
    try:
        return load_json(path / STATE, STATE_SHAPE)["progress"]["best_step"]
    except (OSError, ValueError):
        return UNREADABLE


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model to save: each once, under its first name, even if several parts share it."""
    own = [*dict(model.named_parameters()), *dict(model.named_buffers())]
    saved = model.state_dict()
    return {name: saved[name] for name in own if name in saved}


def load_weights(model: nn.Module, weights: dict[str, Tensor], source: Path) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in weights_of(model).items()}
    actual = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if expected != actual:
        name = min(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
        raise Problem(
            f"{source} does not match its recipe: {name} is {actual.get(name, 'missing')}, "
            f"the recipe's model has {expected.get(name, 'none')}"
        )
    model.load_state_dict(weights, strict=False)
    if bad := first_bad_weight(model):
        raise Problem(f"{source} cannot be used: {bad} is not finite")


def moments_of(model: nn.Module, optimizers: Iterable[Optimizer]) -> dict[str, Tensor]:
    """The optimizers' moments to save, such as ``"blocks.0.bias:exp_avg"``. Learning rates follow from the recipe."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{names[weight]}:{moment}": tensor
        for optimizer in optimizers
        for weight, moments in optimizer.state.items()
        for moment, tensor in moments.items()
        if tensor is not None
    }


def load_moments(model: nn.Module, optimizers: Iterable[Optimizer], saved: dict[str, Tensor], source: Path) -> None:
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    shapes = {name: weight.shape for weight, name in names.items()}
    moments: dict[str, dict[str, Tensor]] = {name: {} for name in names.values()}
    for key, tensor in saved.items():
        name, _, moment = key.rpartition(":")
        if name not in moments or tensor.shape not in (shapes[name], ()) or not tensor.is_floating_point():
            raise Problem(f"{source / MOMENTS} does not match its recipe: {key} is {tuple(tensor.shape)}")
        moments[name][moment] = tensor
    for optimizer in optimizers:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        state = optimizer.state_dict()
        state["state"] = {index: moments[names[weight]] for index, weight in enumerate(weights)}
        optimizer.load_state_dict(state)
