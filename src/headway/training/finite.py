"""Where a loss, a gradient or a weight that is not finite comes from."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.errors import Problem


class NotFinite(Problem):
    """Something is not a number, or infinite. The last checkpoint is from before it happened."""

    exit_code = 1  # the input was good; the run was not

    def __init__(self, step: int, message: str):
        super().__init__(message)
        self.step = step


def first_not_finite(model: nn.Module, forward: Callable[[], object]) -> str:
    """The first tensor that is not finite: a weight, or else the output of a part as ``forward`` runs once more."""
    if bad := first_bad_weight(model):
        return bad
    found: list[str] = []
    hooks = [
        module.register_forward_hook(partial(note, found, name or "the model"))
        for name, module in model.named_modules()
    ]
    try:
        with torch.no_grad():
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    return f"the output of {found[0]}" if found else "the loss itself, the model's outputs are finite"


def first_bad_weight(model: nn.Module) -> str | None:
    bad = (name for name, weight in model.named_parameters() if not weight.isfinite().all())
    return next((f"the weight {name}" for name in bad), None)


def first_bad_gradient(model: nn.Module) -> str:
    """The first in a backward pass is the last in the order of the model."""
    gradients = [(name, weight.grad) for name, weight in model.named_parameters() if weight.grad is not None]
    bad = (name for name, gradient in reversed(gradients) if not gradient.isfinite().all())
    return next((f"the gradient of {name}" for name in bad), "its length alone: it is too long for its precision")


def note(found: list[str], name: str, module: nn.Module, inputs: Any, output: Any) -> None:
    if isinstance(output, Tensor) and not output.isfinite().all():
        found.append(name)
