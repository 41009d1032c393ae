"""Device, precision and processes, by Lightning Fabric; and settings that make torch fast."""

import ctypes
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headway.config.errors import Problem
from headway.config.parallel import Layout
from headway.config.recipe import TrainSpec
from headway.config.signals import follow_parent
from headway.training.world import launcher, world_of

if TYPE_CHECKING:
    from lightning_fabric import Fabric

CORES = torch.get_num_threads()
PRECISIONS: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


@contextmanager
def absent(library: str) -> Iterator[None]:
    """Imports fail as if it were not installed. Fabric imports torchmetrics to ask for its version, and with it
    transformers, which takes seconds and warns in notebooks."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[library]


def launch(spec: TrainSpec) -> "Fabric":
    """With several processes, this starts the others; each runs the same command from the beginning."""
    with absent("torchmetrics"):
        from lightning_fabric import Fabric  # importing takes a second, and only training needs it

    device = pick_device(spec.device)
    if spec.precision == "fp16" and device == "cpu":
        raise Problem("train.precision=fp16 needs a GPU: use fp32 on a CPU")
    layout = world_of(spec)
    available = torch.cuda.device_count() if device == "cuda" else None
    if available is not None and layout.per_node > available:
        raise Problem(f"{layout} needs {layout.per_node} GPUs on a machine, one per process; there are {available}")
    set_up_torch()
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # below that, it recommends lower matmul precision
    several: dict[str, Any] = {}
    if layout.world > 1:
        from headway.training.processes import Processes, environment

        several = {
            "strategy": Processes("nccl" if device == "cuda" else "gloo"),
            "num_nodes": layout.nodes,
            "plugins": [environment(launcher())],
        }
    fabric = Fabric(accelerator=device, devices=layout.per_node, precision=PRECISIONS[spec.precision], **several)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about clusters
        try:
            fabric.launch()
        except RuntimeError as error:
            first = str(error).partition("\n")[0]
            raise Problem(f"the {layout.world} processes could not be connected: {first}") from error
    torch.set_num_threads(threads_of(spec, layout))  # after launching, which sets it too
    if not fabric.is_global_zero:
        follow_parent()
    return fabric


def threads_of(spec: TrainSpec, layout: Layout) -> int:
    """With grains, a number that does not depend on the number of processes: rounding depends on it."""
    usual = 1 if spec.grains is not None else max(CORES // layout.per_node, 1)
    return spec.threads or usual


class SingleProcess:
    """The part of Fabric's interface that a task with its own training engine needs: one process in full precision,
    without the second and the 70 MiB that importing Fabric takes."""

    is_global_zero, global_rank, world_size = True, 0, 1

    def __init__(self, spec: TrainSpec):
        torch.set_num_threads(threads_of(spec, world_of(spec)))
        self.device = torch.device(pick_device(spec.device))

    def broadcast(self, value: Any) -> Any:
        return value

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()

    def rank_zero_first(self, local: bool = False) -> AbstractContextManager[None]:
        return nullcontext()


def pick_device(name: str) -> str:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if available[device])
    if name not in available:
        raise Problem(f"there is no device {name!r}: use auto, cpu, cuda or mps")
    if not available[name]:
        raise Problem(f"train.device={name}, but torch finds none: use auto or cpu")
    return name


def set_up_torch() -> None:
    # Denormal numbers, such as vanishing gradients, are a hundred times slower on a CPU.
    torch.set_flush_denormal(True)
    if sys.platform == "linux":
        keep_memory()


def keep_memory() -> None:
    """Make malloc keep large buffers between steps: if it returns them to the system, every page faults again."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4  # constants of glibc's malloc.h
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, 2**31 - 1)


def give_back_memory() -> None:
    """Return unused memory to the system: reading data takes memory that training does not need."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def compile_blocks(model: nn.Module, static_shapes: bool = True) -> None:
    """Compile block by block: equal blocks share the compiled code. Without ``static_shapes`` it is compiled for
    dynamic shapes right away, instead of first for the shape of the first batch."""
    torch.compiler.reset()  # graphs of earlier runs count towards a limit
    for stack in model.modules():
        if isinstance(stack, nn.ModuleList):
            for block in stack:
                block.compile(dynamic=None if static_shapes else True)
