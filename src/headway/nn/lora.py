"""Low-rank adapters: a matrix W stays as it is, and what is learned is the product of two thin ones beside it,

    W x + (alpha / rank) B A x        (Hu et al. 2021, https://arxiv.org/abs/2106.09685)

B is zero at first, so that nothing changes. Without the second part, the model is what it was: one body serves both.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Model = TypeVar("Model", bound=nn.Module)
ALPHA = 16.0


class LoRALinear(nn.Linear):
    """Its weight and bias are those of the matrix that it takes the place of, under the same names."""

    def __init__(self, matrix: nn.Linear, rank: int):
        nn.Module.__init__(self)
        self.in_features, self.out_features = matrix.in_features, matrix.out_features
        self.weight, self.bias = matrix.weight, matrix.bias
        self.down = nn.Parameter(matrix.weight.new_empty(rank, matrix.in_features))
        self.up = nn.Parameter(matrix.weight.new_zeros(matrix.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=5**0.5)
        self.scale, self.on = ALPHA / rank, True

    def forward(self, x: Tensor) -> Tensor:
        plain = F.linear(x, self.weight, self.bias)
        return plain + self.scale * F.linear(F.linear(x, self.down), self.up) if self.on else plain

    def merged(self) -> nn.Linear:
        """One matrix that does the same."""
        made = nn.Linear(self.in_features, self.out_features, self.bias is not None, self.weight.device)
        with torch.no_grad():
            made.weight.copy_(self.weight + self.on * self.scale * self.up @ self.down)
            if self.bias is not None:
                made.bias.copy_(self.bias)
        return made


def adapt(model: Model, rank: int) -> Model:
    """Every matrix gets an adapter, and nothing else learns."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, part in module.named_children():
            if type(part) is nn.Linear:
                setattr(module, name, LoRALinear(part, rank))
    return model


@contextmanager
def without_adapters(model: nn.Module) -> Iterator[None]:
    """The model as it was."""
    before = {module: module.on for module in model.modules() if isinstance(module, LoRALinear)}
    for adapter in before:
        adapter.on = False
    try:
        yield
    finally:
        for adapter, on in before.items():
            adapter.on = on


def folded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of the weights of a model by their names: those of one without adapters that does the same."""
    found = dict(weights)
    for name in weights:
        if name.endswith(".down"):
            matrix = name.removesuffix(".down")
            down, up = found.pop(name), found.pop(f"{matrix}.up")
            found[f"{matrix}.weight"] = found[f"{matrix}.weight"] + ALPHA / len(down) * up @ down
    return found


def merged(model: Model) -> Model:
    """A copy without adapters that does the same as the model with them; the model itself, if it has none."""
    if not any(isinstance(module, LoRALinear) for module in model.modules()):
        return model
    twin = deepcopy(model)
    for module in list(twin.modules()):
        for name, part in module.named_children():
            if isinstance(part, LoRALinear):
                setattr(module, name, part.merged())
    return twin
