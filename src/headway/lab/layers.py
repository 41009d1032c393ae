"""A model's layers, and what a training step costs."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headway.data.batch import Batch
from headway.tasks import Task


@dataclass(frozen=True)
class Layer:
    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int


def layers(task: Task, model: nn.Module, batch: Batch) -> list[Layer]:
    """Every module that has parameters of its own, in the order in which a batch passes through."""
    found: list[Layer] = []
    hooks = [
        module.register_forward_hook(partial(note, found, name))
        for name, module in model.named_modules()
        if any(True for _ in module.parameters(recurse=False))
    ]
    task.loss(model, batch)
    for hook in hooks:
        hook.remove()
    return found


def note(found: list[Layer], name: str, module: nn.Module, inputs: Any, output: Tensor | tuple[Tensor, Any]) -> None:
    if isinstance(output, tuple):  # recurrent networks of torch's give their last state, too
        output = output[0]
    own = sum(weight.numel() for weight in module.parameters(recurse=False))
    found.append(Layer(name, type(module).__name__, tuple(output.shape), own))


def step_flops(task: Task, model: nn.Module, batch: Batch) -> int:
    """Floating-point operations of a forward and a backward pass; a multiplication and an addition count as two."""
    # The counter knows matrix products; on a CPU, fused attention and recurrence hide them, the plain way does not.
    plain = torch.backends.mkldnn.flags(enabled=False)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        warnings.simplefilter("ignore")  # torch warns that there is no Intel GPU
        with plain:
            task.loss(model, batch).mean.backward()
    model.zero_grad()
    return counter.get_total_flops()
