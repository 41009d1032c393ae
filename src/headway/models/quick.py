"""Decoders made quick for writing: a copy whose matrices are kept in another form.

At a token a step, a CPU spends its time reading matrices. Two forms help:

- packed: the same numbers in the order in which oneDNN's kernels read them
- int8: each row of a matrix as whole numbers from -127 to 127 and a scale: a quarter of the bytes, and a little less
  exact. The inputs are rounded likewise as they come (dynamic quantisation).

On a GPU the time goes into starting kernels, and steps are recorded instead; see models/captured.
"""

import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.models.captured import Captured
from headway.models.decoder import Decoder
from headway.models.heads import TiedHead

Maker = Callable[[Tensor, Tensor | None], nn.Module]
Model = TypeVar("Model", bound=nn.Module)


class Packed(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight, 1), bias

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class Int8(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12).double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch means to move this elsewhere
            zeros = torch.zeros(len(weight), dtype=torch.long)
            whole = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(whole, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(x.contiguous(), self.packed, True)


WORTH_PACKING = 1 << 18  # numbers in a matrix: with fewer, the other kernel takes longer to start than it spares
FORMS: dict[str, Maker] = {"packed": Packed, "int8": Int8}


def with_matrices(model: Model, make: Maker, least: int = 0) -> Model:
    """A copy of a model in which ``make`` makes something else of every matrix that has at least so many numbers."""
    twin = deepcopy(model)
    for module in list(twin.modules()):
        for name, part in module.named_children():
            if isinstance(part, nn.Linear) and part.weight.numel() >= least:
                setattr(module, name, make(part.weight.detach(), None if part.bias is None else part.bias.detach()))
            elif isinstance(part, TiedHead):
                matrix = part.embedding.table.weight.detach()[: part.embedding.vocabulary]
                setattr(module, name, make(matrix, None if part.bias is None else part.bias.detach()))
    return twin


def quick(model: Decoder, int8: bool = False) -> Decoder | Captured:
    """What to write with."""
    device = next(model.parameters()).device.type
    if int8 and device != "cpu":
        raise Problem("int8 is for the CPU: on a GPU the time goes elsewhere")
    if device == "cuda":
        return Captured(model)
    if device != "cpu":
        return model
    return with_matrices(model, FORMS["int8"]) if int8 else with_matrices(model, FORMS["packed"], WORTH_PACKING)
