"""Initialisation of the weights.

- parts: each part's own initialisation
- gpt2: matrices from a normal distribution with standard deviation 0.02, divided by sqrt(2 x layers) for those that
  write into the residual stream, so that their sum does not grow with depth; biases zero (Radford et al. 2019,
  https://openai.com/index/better-language-models, section 2.3)
- zero: each part's own, but matrices that write into the residual stream are zero, so that every block starts as the
  identity (Zhang et al. 2019, https://arxiv.org/abs/1901.09321)
"""

import math
from collections.abc import Callable

from torch import nn

WRITERS = ("output", "outer")  # the names of the matrices that write into the residual stream


def parts(stack: nn.Module, layers: int) -> None:
    """Keep the weights as they are."""


def gpt2(stack: nn.Module, layers: int, size: float = 0.02) -> None:
    for name, module in stack.named_modules():
        if isinstance(module, nn.Linear):
            writes = name.rpartition(".")[2] in WRITERS
            nn.init.normal_(module.weight, std=size / math.sqrt(2 * layers) if writes else size)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def zero(stack: nn.Module) -> None:
    for name, module in stack.named_modules():
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in WRITERS:
            nn.init.zeros_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


INITS: dict[str, Callable[..., None]] = {"parts": parts, "gpt2": gpt2, "zero": zero}
