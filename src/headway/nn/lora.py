"""LoRA, low-rank adapters: a matrix W is frozen, and the product of two thin matrices beside it is trained,

    W x + (alpha / rank) B A x        (Hu et al. 2021, https://arxiv.org/abs/2106.09685)

B starts at zero, so that the adapted model starts as the original. With adapters disabled it is the original again: one
set of weights serves as policy and as reference.
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
    """Replaces a linear layer and keeps its weight and bias under the same names."""

    def __init__(self, matrix: nn.Linear, rank: int):
        nn.Module.__init__(self)
        self.in_features, self.out_features = matrix.in_features, matrix.out_features
        self.weight, self.bias = matrix.weight, matrix.bias
        self.down = nn.Parameter(matrix.weight.new_empty(rank, matrix.in_features))
        self.up = nn.Parameter(matrix.weight.new_zeros(matrix.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=5**0.5)
        self.scale, self.enabled = ALPHA / rank, True

    def forward(self, x: Tensor) -> Tensor:
        output = F.linear(x, self.weight, self.bias)
        return output + self.scale * F.linear(F.linear(x, self.down), self.up) if self.enabled else output

    def merge(self) -> nn.Linear:
        """A plain linear layer with the same outputs."""
        like = {"device": self.weight.device, "dtype": self.weight.dtype}
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, **like)
        with torch.no_grad():
            linear.weight.copy_(self.weight + self.enabled * self.scale * self.up @ self.down)
            if self.bias is not None:
                linear.bias.copy_(self.bias)
        return linear


def add_lora(model: Model, rank: int) -> Model:
    """Give every linear layer an adapter, and freeze everything else. Changes the model in place."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, part in module.named_children():
            if type(part) is nn.Linear:
                setattr(module, name, LoRALinear(part, rank))
    return model


@contextmanager
def lora_disabled(model: nn.Module) -> Iterator[None]:
    """Run the original model, without its adapters."""
    before = {module: module.enabled for module in model.modules() if isinstance(module, LoRALinear)}
    for adapter in before:
        adapter.enabled = False
    try:
        yield
    finally:
        for adapter, enabled in before.items():
            adapter.enabled = enabled


def merge_lora_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of an adapted model, with each adapter added to its matrix."""
    merged = dict(weights)
    for name in weights:
        if name.endswith(".down"):
            matrix = name.removesuffix(".down")
            down, up = merged.pop(name), merged.pop(f"{matrix}.up")
            merged[f"{matrix}.weight"] = merged[f"{matrix}.weight"] + ALPHA / len(down) * up @ down
    return merged


def merge_lora(model: Model) -> Model:
    """A copy with each adapter added to its matrix; the model itself if it has no adapters."""
    if not any(isinstance(module, LoRALinear) for module in model.modules()):
        return model
    twin = deepcopy(model)
    for module in list(twin.modules()):
        for name, part in module.named_children():
            if isinstance(part, LoRALinear):
                setattr(module, name, part.merge())
    return twin
