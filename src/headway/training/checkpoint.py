"""Checkpoints: folders that are whole or not there.

    checkpoints/step-00000400/
        model.safetensors       the weights; with train.average their mean
        last.safetensors        with train.average, the weights of the last step, which training goes on from
        optimizer.safetensors   the optimizers' moments
        carried.safetensors     where the next step goes on from one: what a recurrent network carries along
        state.json              the step, and what early stopping remembers
        manifest.json           the SHA-256 of the others: one flipped bit would load without a word

A checkpoint is written into a folder beside, synced to the disk, and renamed. Nothing here reads pickle.
"""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from headway.config.errors import Problem
from headway.data.storage import sha256_of, sync

WEIGHTS, MOMENTS, STATE, MANIFEST = "model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"
CARRIED, LAST = "carried.safetensors", "last.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    progress: dict[str, Any]  # the step, and what early stopping remembers
    scaler: dict[str, Any]  # of losses in half precision
    carried: dict[str, Tensor] = field(default_factory=dict)  # what the next step goes on from
    last: dict[str, Tensor] = field(default_factory=dict)  # the weights of the last step, where others are kept

    @property
    def step(self) -> int:
        return self.progress["step"]


def folder_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def steps_in(folder: Path) -> list[int]:
    """The steps that have a checkpoint, newest first."""
    return sorted((int(path.name[5:]) for path in folder.glob("step-" + "[0-9]" * 8)), reverse=True)


def write(folder: Path, checkpoint: Checkpoint) -> None:
    target, beside = folder_of(folder, checkpoint.step), folder / f".writing-{checkpoint.step}"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        save_file(checkpoint.weights, beside / WEIGHTS)
        save_file(checkpoint.moments, beside / MOMENTS)
        for name, tensors in {CARRIED: checkpoint.carried, LAST: checkpoint.last}.items():
            if tensors:
                save_file(tensors, beside / name)
        state = {"progress": checkpoint.progress, "scaler": checkpoint.scaler}
        (beside / STATE).write_text(json.dumps(state, indent=2))
        manifest = {path.name: sha256_of(path) for path in sorted(beside.iterdir())}
        (beside / MANIFEST).write_text(json.dumps(manifest, indent=2))
        for path in (*beside.iterdir(), beside):
            sync(path)
        if target.exists():  # damaged, or from before the run was resumed
            remove(target)
        beside.rename(target)
        sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(beside, ignore_errors=True)
        kept = steps_in(folder)
        last = f"the last good one is {folder_of(folder, kept[0])}" if kept else "there is none before it"
        raise Problem(f"cannot write the checkpoint {target}: {error}; {last}") from error


def read(folder: Path, step: int) -> Checkpoint:
    path = folder_of(folder, step)
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        for name in {WEIGHTS, MOMENTS, STATE, *manifest}:
            if sha256_of(path / name) != manifest[name]:
                raise Problem(f"{path / name} is damaged: its SHA-256 is not the one in {MANIFEST}")
        carried, last = (tensors_in(path / name) if name in manifest else {} for name in (CARRIED, LAST))
        state = json.loads((path / STATE).read_text())
        weights, moments = tensors_in(path / WEIGHTS), tensors_in(path / MOMENTS)
        return Checkpoint(weights, moments, carried=carried, last=last, **state)
    except Problem:
        raise
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"the checkpoint {path} is damaged: {error}") from error


def tensors_in(path: Path) -> dict[str, Tensor]:
    """One at a time, and each a copy: as they come, they are the file's own pages, and change when the file does."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.offset_keys()}


def newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and what is wrong with those that are newer."""
    damaged: list[str] = []
    for step in steps_in(folder):
        try:
            return read(folder, step), damaged
        except Problem as problem:
            damaged.append(str(problem))
    return None, damaged


def prune(folder: Path, newest: int = 2) -> None:
    """Keep the newest whole ones (should the last be damaged, there is one before it), and the best of each of them."""
    steps = steps_in(folder)
    best_steps = {step: best for step in steps if (best := best_step(folder_of(folder, step))) is not UNREADABLE}
    kept = list(best_steps)[:newest]
    keep = {*kept, *(best_steps[step] for step in kept)}
    for step in best_steps.keys() - keep:
        remove(folder_of(folder, step))
    for leftover in folder.glob(".*"):  # of writing or removing that was cut off
        shutil.rmtree(leftover, ignore_errors=True)


UNREADABLE = -1


def best_step(path: Path) -> int | None:
    """Which step was the best when this checkpoint was written."""
    try:
        return json.loads((path / STATE).read_text())["progress"]["best_step"]
    except (OSError, ValueError, KeyError, TypeError):
        return UNREADABLE


def remove(path: Path) -> None:
    """Renamed first, so that what has the name of a checkpoint is never half of one."""
    shutil.rmtree(path.rename(path.with_name(f".removing-{path.name}")), ignore_errors=True)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """What is saved of a model: each tensor once, under its first name, even if several parts share it."""
    own = [*dict(model.named_parameters()), *dict(model.named_buffers())]
    saved = model.state_dict()
    return {name: saved[name] for name in own if name in saved}


def load_weights(model: nn.Module, weights: dict[str, Tensor], source: Path) -> None:
    wanted = {name: tuple(tensor.shape) for name, tensor in weights_of(model).items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if wanted != found:
        name = min(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise Problem(
            f"{source} does not fit its recipe: {name} is {found.get(name, 'missing')}, "
            f"the recipe's model wants {wanted.get(name, 'none')}"
        )
    model.load_state_dict(weights, strict=False)


def moments_of(model: nn.Module, optimizers: Iterable[Optimizer]) -> dict[str, Tensor]:
    """What is saved of the optimizers: ``"blocks.0.bias:exp_avg"`` and so on. Rates follow from the recipe."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{names[weight]}:{moment}": tensor
        for optimizer in optimizers
        for weight, moments in optimizer.state.items()
        for moment, tensor in moments.items()
        if tensor is not None
    }


def load_moments(model: nn.Module, optimizers: Iterable[Optimizer], saved: dict[str, Tensor]) -> None:
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    moments: dict[str, dict[str, Tensor]] = {name: {} for name in names.values()}
    for key, tensor in saved.items():
        name, _, moment = key.rpartition(":")
        moments[name][moment] = tensor
    for optimizer in optimizers:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        state = optimizer.state_dict()
        state["state"] = {place: moments[names[weight]] for place, weight in enumerate(weights)}
        optimizer.load_state_dict(state)
