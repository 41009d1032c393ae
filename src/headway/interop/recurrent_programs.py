"""Recurrent networks in programs: one operator for a whole sequence, of any length.

Tracing would write torch's kernel out, token by token, for one length. In its place stands an operator of our own
with the weights in the layout of ONNX, which has operators for the same three networks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config.imports import library
from headway.nn.recurrent import Recurrent


class Layout(NamedTuple):
    gates: tuple[int, ...]  # of torch, in the order of ONNX
    run: Callable[..., Any]  # torch's kernel


LAYOUTS: dict[str, Layout] = {
    "RNN": Layout((0,), torch.rnn_tanh),
    "GRU": Layout((1, 0, 2), torch.gru),
    "LSTM": Layout((0, 3, 1, 2), torch.lstm),
}


def reordered(matrix: Tensor, gates: tuple[int, ...]) -> Tensor:
    """The rows of a matrix, or the numbers of a bias, with its gates in another order."""
    parts = matrix.chunk(len(gates))
    return torch.cat([parts[gate] for gate in gates])


def inverse(gates: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(gates.index(gate) for gate in range(len(gates)))


@torch.library.custom_op("headway::recurrent", mutates_args=())
def recurrent(
    x: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor, kind: str
) -> tuple[Tensor, Tensor, Tensor]:
    """States (B, T, D), the last hidden state (1, B, D), and the memory of an LSTM. ``weight`` is (1, n D, D),
    ``recurrence`` too, and ``bias`` (1, 2 n D)."""
    gates, run = LAYOUTS[kind]
    order = inverse(gates)
    parts = [reordered(each, order) for each in (weight[0], recurrence[0], *bias[0].chunk(2))]
    state = (hidden, memory) if kind == "LSTM" else hidden
    states, *after = run(x, state, parts, True, 1, 0.0, False, False, True)
    return states, after[0].clone(), after[1].clone() if kind == "LSTM" else memory.clone()


@recurrent.register_fake
def shapes(
    x: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor, kind: str
) -> tuple[Tensor, Tensor, Tensor]:
    states = x.new_empty(x.shape[0], x.shape[1], hidden.shape[2])
    return states, torch.empty_like(hidden), torch.empty_like(memory)


class RecurrentProgram(nn.Module):
    """In the place of torch's network."""

    def __init__(self, network: nn.RNNBase):
        super().__init__()
        self.kind, self.hidden_size = type(network).__name__, network.hidden_size
        gates, weights = LAYOUTS[self.kind].gates, [each.detach() for each in network.parameters()]
        matrices = [reordered(each, gates)[None] for each in weights]
        self.register_buffer("weight", matrices[0].contiguous())
        self.register_buffer("recurrence", matrices[1].contiguous())
        self.register_buffer("bias", torch.cat(matrices[2:], dim=1))

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        zeros = x.new_zeros(1, x.shape[0], self.hidden_size)
        hidden, memory = (zeros, zeros) if state is None else state if isinstance(state, tuple) else (state, zeros)
        weights: Any = (self.weight, self.recurrence, self.bias)
        states, hidden, memory = recurrent(x, hidden, memory, *weights, self.kind)
        return states, (hidden, memory) if self.kind == "LSTM" else hidden


def with_programs(model: nn.Module) -> nn.Module:
    """The model, with its recurrent networks as operators."""
    for part in model.modules():
        if isinstance(part, Recurrent):
            part.window = None  # no gradient flows here
            for name in ("forwards", "backwards"):
                if isinstance(network := getattr(part, name), nn.RNNBase):
                    setattr(part, name, RecurrentProgram(network))
    return model


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """How torch's exporter writes the operator in ONNX."""
    op = library("onnxscript", "onnx").opset18

    def write(x: Any, hidden: Any, memory: Any, weight: Any, recurrence: Any, bias: Any, kind: str) -> Any:
        time_first = op.Transpose(x, perm=[1, 0, 2])
        given, size = (time_first, weight, recurrence, bias, None, hidden), weight.shape[1] // len(LAYOUTS[kind].gates)
        if kind == "LSTM":
            states, hidden, memory = op.LSTM(*given, memory, hidden_size=size)
        elif kind == "GRU":
            states, hidden = op.GRU(*given, hidden_size=size, linear_before_reset=1)
        else:
            states, hidden = op.RNN(*given, hidden_size=size)
        batch_first = op.Transpose(op.Squeeze(states, op.Constant(value_ints=[1])), perm=[1, 0, 2])
        return batch_first, hidden, op.Identity(memory)

    return {torch.ops.headway.recurrent.default: write}
