"""Find where a loss, gradient or weight that is not finite comes from."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.collectives import local_part


class NotFinite(Problem):
    """A number is NaN or infinite. The last checkpoint is from before."""

    exit_code = 1  # the input was fine, the run failed

    def __init__(self, step: int, message: str):
        super().__init__(message)
        self.step = step


def first_not_finite(model: nn.Module, forward: Callable[[], object]) -> str | None:
    """The first tensor that is not finite: a weight, or else a module's output in another ``forward``; None: all of
    them are finite."""
    if bad := first_bad_weight(model):
        return bad
    modules: list[str] = []
    hooks = [
        module.register_forward_hook(partial(note, modules, name or "the model"))
        for name, module in model.named_modules()
    ]
    try:
        with torch.no_grad():
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    return f"the output of {modules[0]}" if modules else None


def first_bad_weight(model: nn.Module) -> str | None:
    bad = (name for name, weight in model.named_parameters() if not local_part(weight).isfinite().all())
    return next((f"the weight {name}" for name in bad), None)


def first_bad_gradient(model: nn.Module) -> str:
    """The backward pass computes gradients in reverse order."""
    gradients = [(name, weight.grad) for name, weight in model.named_parameters() if weight.grad is not None]
    bad = (name for name, gradient in reversed(gradients) if not gradient.isfinite().all())
    return next((f"the gradient of {name}" for name in bad), "its norm, which overflows")


def note(modules: list[str], name: str, module: nn.Module, inputs: Any, output: Any) -> None:
    outputs = output if isinstance(output, tuple) else (output,)
    if any(isinstance(each, Tensor) and not each.isfinite().all() for each in outputs):
        modules.append(name)
