"""Feed-forward networks, applied to each token by itself.

    FFN(x) = W2 f(W1 x + b1) + b2

- relu: f(h) = max(h, 0) (Vaswani et al. 2017)
- gelu: f(h) = h P(Z < h) for a standard normal Z (Hendrycks & Gimpel 2016, https://arxiv.org/abs/1606.08415)
- squared_relu: f(h) = max(h, 0)^2 (So et al. 2021, https://arxiv.org/abs/2109.08668)
- sine: f(h) = sin(h), with W1 scaled up at initialisation (Sitzmann et al. 2020, https://arxiv.org/abs/2006.09661)
- silu: f(h) = h sigmoid(h), also called swish (Elfwing et al. 2018, https://arxiv.org/abs/1702.03118)
- swiglu: W2 (silu(W1 x + b1) * (W3 x + b3)) + b2 (Shazeer 2020, https://arxiv.org/abs/2002.05202)
- geglu: the same with gelu, approximated by tanh (same paper)
- neighbourhood: W1 also reads neighbouring tokens
- none: no feed-forward network, only the mixer
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.errors import Problem
from headway.nn.collectives import with_halo
from headway.nn.context import NO_CONTEXT, Context, refuse_documents, refuse_looking_ahead
from headway.nn.cutting import Columns, Rows
from headway.nn.dropout import drop

Activation = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    cuts: ClassVar = {"inner": Columns(), "outer": Rows()}
    keeps_slices = True  # of a sequence: each token by itself

    def __init__(
        self, width: int, hidden: int, activation: Activation = torch.relu, dropout: float = 0.0, bias: bool = True
    ):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, hidden, bias), nn.Linear(hidden, width, bias)
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        # learn: begin block.feedforward
        return self.outer(drop(self.activation(self.inner(x)), self.dropout, self.training))
        # learn: end


def relu(width: int, hidden: int, dropout: float = 0.0, bias: bool = True) -> FeedForward:
    return FeedForward(width, hidden, torch.relu_, dropout, bias)  # in place: the gradient needs only the output


def gelu(width: int, hidden: int, dropout: float = 0.0, tanh: bool = False, bias: bool = True) -> FeedForward:
    """``tanh`` selects the approximation that GPT-2 was trained with."""
    return FeedForward(width, hidden, partial(F.gelu, approximate="tanh" if tanh else "none"), dropout, bias)


def squared_relu(width: int, hidden: int, dropout: float = 0.0, bias: bool = True) -> FeedForward:
    return FeedForward(width, hidden, lambda inner: torch.relu(inner).square(), dropout, bias)


def silu(width: int, hidden: int, dropout: float = 0.0, bias: bool = True) -> FeedForward:
    return FeedForward(width, hidden, F.silu, dropout, bias)


def sine(width: int, hidden: int, dropout: float = 0.0, scale: float = 8.0, bias: bool = True) -> FeedForward:
    """With a scale well above 1, the sines initially span several periods over the range of their inputs."""
    network = FeedForward(width, hidden, torch.sin, dropout, bias)
    with torch.no_grad():
        network.inner.weight.mul_(scale)
    return network


class Gated(nn.Module):
    """The activation of the first half of the hidden units gates the second half."""

    keeps_slices = True

    def __init__(self, width: int, hidden: int, activation: Activation, dropout: float = 0.0, bias: bool = True):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 2 * hidden, bias), nn.Linear(hidden, width, bias)
        self.activation, self.dropout = activation, dropout

    @property
    def cuts(self) -> dict[str, Columns | Rows]:
        return {"inner": Columns((self.outer.in_features,) * 2), "outer": Rows()}

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        # learn: begin block.gated
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(drop(self.activation(gate) * value, self.dropout, self.training))
        # learn: end


def swiglu(width: int, hidden: int, dropout: float = 0.0, bias: bool = True) -> Gated:
    return Gated(width, hidden, F.silu, dropout, bias)


def geglu(width: int, hidden: int, dropout: float = 0.0, bias: bool = True) -> Gated:
    return Gated(width, hidden, partial(F.gelu, approximate="tanh"), dropout, bias)


class Neighbourhood(FeedForward):
    """Reads each token with the ``before`` tokens before it and the ``after`` tokens after it.

    Padding, and positions beyond either end of the sequence, are read as zeros.
    """

    def __init__(
        self, width: int, hidden: int, before: int = 2, after: int = 1, dropout: float = 0.0, bias: bool = True
    ):
        if before < 0 or after < 0:
            raise Problem(f"before={before} and after={after} are numbers of tokens: neither may be negative")
        super().__init__(width, hidden, torch.relu_, dropout, bias)
        self.inner = nn.Linear((before + 1 + after) * width, hidden, bias)
        self.before, self.after = before, after
        self.looks_ahead = "after=0" if after else ""

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        if context.causal:
            refuse_looking_ahead(self)
        refuse_documents(self, context)
        if context.packing is not None:
            return super().forward(context.packing.apply_padded(lambda padded, _: self.padded_windows(padded), x))
        if context.real is not None:
            x = x * context.real[..., None]
        if context.state is not None:
            return super().forward(self.windows(context.state.with_history(self, x, self.before, context.new)))
        if context.across is not None:
            return super().forward(self.windows(with_halo(x, context.across, self.before, self.after)))
        return super().forward(self.padded_windows(x))

    def padded_windows(self, x: Tensor) -> Tensor:
        return self.windows(F.pad(x, (0, 0, self.before, self.after)))

    def windows(self, padded: Tensor) -> Tensor:
        """(B, T + n - 1, D) -> (B, T, n D): each token with its neighbours."""
        # learn: begin block.neighbours
        return padded.unfold(1, self.before + 1 + self.after, 1).transpose(-2, -1).flatten(-2)
        # learn: end


def none() -> None:
    return None


FEEDFORWARDS: dict[str, Callable[..., nn.Module | None]] = {
    "relu": relu,
    "gelu": gelu,
    "squared_relu": squared_relu,
    "sine": sine,
    "silu": silu,
    "swiglu": swiglu,
    "geglu": geglu,
    "neighbourhood": Neighbourhood,
    "none": none,
}
