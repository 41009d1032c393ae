"""Where a run computes: device, precision and processes, by Lightning Fabric; and torch set up to be fast."""

import ctypes
import logging
import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from headway.config.errors import Problem
from headway.config.recipe import TrainSpec

if TYPE_CHECKING:
    from lightning_fabric import Fabric

CORES = torch.get_num_threads()
PRECISIONS: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


def launch(spec: TrainSpec) -> "Fabric":
    """With more than one process, this starts the others: each runs the same command from the top."""
    from lightning_fabric import Fabric  # takes a second, and only training needs it

    device = pick_device(spec.device)
    if spec.precision == "fp16" and device == "cpu":
        raise Problem("train.precision=fp16 needs a GPU: on a CPU take fp32")
    available = torch.cuda.device_count() if device == "cuda" else None
    if available is not None and spec.processes > available:
        raise Problem(f"train.processes={spec.processes}, but there are {available} GPUs, and each process takes one")
    set_up_torch()
    torch.set_num_threads(spec.threads or CORES)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # below that, it advises less precise products
    strategy = "ddp" if spec.processes > 1 else "auto"
    fabric = Fabric(accelerator=device, strategy=strategy, devices=spec.processes, precision=PRECISIONS[spec.precision])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Fabric guesses at what a cluster might want
        fabric.launch()
    return fabric


class SingleProcess:
    """One process in full precision, for what learns by an engine of its own: all that it is asked of Fabric, without
    the second and the 70 MiB that it takes to import it."""

    is_global_zero, world_size = True, 1

    def __init__(self, spec: TrainSpec):
        torch.set_num_threads(spec.threads or CORES)
        self.device = torch.device(pick_device(spec.device))

    def broadcast(self, value: Any) -> Any:
        return value

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()


def pick_device(name: str) -> str:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if there[device])
    if not there[name]:
        raise Problem(f"train.device={name}, but torch finds none here: take auto or cpu")
    return name


def set_up_torch() -> None:
    # Numbers too small for full precision, as vanishing gradients are, take a hundred times as long on a CPU.
    torch.set_flush_denormal(True)
    if sys.platform == "linux":
        keep_memory()


def keep_memory() -> None:
    """Have the C library keep large buffers between steps: given back, every page of them faults again."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4  # the names of glibc's malloc.h
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, 2**31 - 1)


def give_back_memory() -> None:
    """What is kept but not used any more: reading data takes memory that training does not."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
