"""Blocks: sublayers one after another, each inside a residual connection.

Where the norm stands is a wrapper that any sublayer fits in:

- post: norm(x + f(x)) (Vaswani et al. 2017)
- pre: x + f(norm(x)) (Xiong et al. 2020, https://arxiv.org/abs/2002.04745); the stack ends with one more norm
- plain: f(x), no residual and no norm, as recurrent networks are usually stacked
- rezero: x + a f(x), with a number a that starts at zero (Bachlechner et al. 2020, https://arxiv.org/abs/2003.04887)
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.nn.context import ALONE, Context
from headway.nn.dropout import drop


class PostNorm(nn.Module):
    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, dropout

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        return self.norm(x + drop(self.sublayer(x, context), self.dropout, self.training))


class PreNorm(nn.Module):
    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, dropout

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        return x + drop(self.sublayer(self.norm(x), context), self.dropout, self.training)


class ReZero(nn.Module):
    def __init__(self, sublayer: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.dropout = sublayer, dropout
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        return x + self.scale * drop(self.sublayer(x, context), self.dropout, self.training)


class Plain(nn.Module):
    def __init__(self, sublayer: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.dropout = sublayer, dropout

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        return drop(self.sublayer(x, context), self.dropout, self.training)


class Block(nn.ModuleDict):
    """``Block(mixer=..., feedforward=...)``: any sublayers, in the order given, each with a name."""

    def __init__(self, **sublayers: nn.Module):
        super().__init__(sublayers)

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        for sublayer in self.values():
            x = sublayer(x, context)
        return x


PLACEMENTS: dict[str, Callable[..., nn.Module]] = {
    "post": PostNorm,
    "pre": PreNorm,
    "rezero": ReZero,
    "plain": Plain,
}
