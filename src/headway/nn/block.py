"""Blocks: sublayers one after another, each inside a residual connection with a norm.

Norms, over the width of each token:

- layernorm: (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016, https://arxiv.org/abs/1607.06450)
- rmsnorm: x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467)
- none: x

Norm placement is a wrapper around any sublayer f:

- post: norm(x + f(x)) (Vaswani et al. 2017)
- pre: x + f(norm(x)) (Xiong et al. 2020, https://arxiv.org/abs/2002.04745); the stack ends with one more norm
- plain: f(x), no residual and no norm, as recurrent networks are usually stacked
- rezero: x + a f(x), with a scalar a that starts at zero (Bachlechner et al. 2020, https://arxiv.org/abs/2003.04887)
"""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.context import NO_CONTEXT, Context
from headway.nn.dropout import drop


class LayerNorm(nn.LayerNorm):
    """Without ``weight`` there is nothing to learn: the matrices that read the output can learn the same."""

    def __init__(self, width: int, eps: float = 1e-5, weight: bool = True):
        super().__init__(width, eps, elementwise_affine=weight)


class RMSNorm(nn.RMSNorm):
    def __init__(self, width: int, eps: float = 1e-6, weight: bool = True):
        super().__init__(width, eps, elementwise_affine=weight)


class NoNorm(nn.Identity):
    pass


class IgnoringContext(nn.Module):
    """A module of a single input, such as ``nn.Sequential``, as a sublayer."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        return self.module(x)


def as_sublayer(module: nn.Module) -> nn.Module:
    """A module that takes no context is wrapped."""
    if not isinstance(module, nn.Module):
        raise Problem(f"{module!r:.80} is not a torch module: a part is a class or a function that makes one")
    try:
        inspect.signature(module.forward).bind(None, None)
    except TypeError:
        return IgnoringContext(module)
    return module


class PostNorm(nn.Module):
    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, dropout

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        # learn: begin block.post
        return self.norm(x + drop(self.sublayer(x, context), self.dropout, self.training))
        # learn: end


class PreNorm(nn.Module):
    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, dropout

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        # learn: begin block.pre
        return x + drop(self.sublayer(self.norm(x), context), self.dropout, self.training)
        # learn: end


class ReZero(nn.Module):
    def __init__(self, sublayer: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.dropout = sublayer, dropout
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        # learn: begin block.rezero
        return x + self.scale * drop(self.sublayer(x, context), self.dropout, self.training)
        # learn: end


class Plain(nn.Module):
    def __init__(self, sublayer: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.dropout = sublayer, dropout

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        return drop(self.sublayer(x, context), self.dropout, self.training)


class Block(nn.ModuleDict):
    """``Block(mixer=..., feedforward=...)``: named sublayers, applied in the given order."""

    def __init__(self, **sublayers: nn.Module):
        super().__init__(sublayers)

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        for sublayer in self.values():
            x = sublayer(x, context)
        return x


NORMS = {"layernorm": LayerNorm, "rmsnorm": RMSNorm, "none": NoNorm}
PLACEMENTS: dict[str, Callable[..., nn.Module]] = {
    "post": PostNorm,
    "pre": PreNorm,
    "rezero": ReZero,
    "plain": Plain,
}
