"""Recurrent networks: a hidden state runs along the sequence, and each token updates it.

    h[t] = cell(x[t], h[t - 1]),  h[-1] = 0

- rnn: h = tanh(W x + U h + b) (Elman 1990, https://doi.org/10.1207/s15516709cog1402_1)
- lstm: c = f * c + i * g,  h = o * tanh(c), with gates i, f, o = sigmoid(W x + U h + b) and g = tanh(W x + U h + b)
  (Hochreiter & Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735, with forget gates)
- gru: h = (1 - z) * n + z * h, with gates r, z = sigmoid(W x + U h + b) and n = tanh(W x + b + r * (U h + b))
  (Cho et al. 2014, https://arxiv.org/abs/1406.1078, with the reset after the product)

The cells below are the formulas; ``Recurrent`` uses torch's kernels, which process a whole sequence in one call, and a
test holds the two equal. A mixer is the part of a block through which tokens exchange information: attention, or one of
these.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.attention import SelfAttention
from headway.nn.context import NO_CONTEXT, Context, refuse_documents, refuse_looking_ahead
from headway.nn.state import State

Hidden = tuple[Tensor, ...]  # the state of a cell; its first tensor is the output
Cell = Callable[[Tensor, Tensor, Hidden], Hidden]


def rnn_cell(inputs: Tensor, hidden: Tensor, state: Hidden) -> Hidden:
    """``inputs`` is W x + b, ``hidden`` is U h + b."""
    # learn: begin rnn.elman
    return (torch.tanh(inputs + hidden),)
    # learn: end


def lstm_cell(inputs: Tensor, hidden: Tensor, state: Hidden) -> Hidden:
    # learn: begin rnn.lstm
    input_gate, forget_gate, new, output_gate = (inputs + hidden).chunk(4, dim=-1)
    memory = forget_gate.sigmoid() * state[1] + input_gate.sigmoid() * new.tanh()
    return output_gate.sigmoid() * memory.tanh(), memory
    # learn: end


def gru_cell(inputs: Tensor, hidden: Tensor, state: Hidden) -> Hidden:
    # learn: begin rnn.gru
    reset_in, update_in, new_in = inputs.chunk(3, dim=-1)
    reset_hidden, update_hidden, new_hidden = hidden.chunk(3, dim=-1)
    reset, update = (reset_in + reset_hidden).sigmoid(), (update_in + update_hidden).sigmoid()
    new = torch.tanh(new_in + reset * new_hidden)
    return ((1 - update) * new + update * state[0],)
    # learn: end


CELLS: dict[type[nn.RNNBase], tuple[Cell, int]] = {  # with the number of tensors in the state
    nn.RNN: (rnn_cell, 1),
    nn.LSTM: (lstm_cell, 2),
    nn.GRU: (gru_cell, 1),
}


def unroll(network: nn.RNNBase, x: Tensor, cell: Cell | None = None) -> Tensor:
    """The states (B, T, D) of a torch network, computed token by token with its formula above, or with ``cell``."""
    # learn: begin rnn.unroll
    own_cell, tensors = CELLS[type(network)]
    cell = cell or own_cell
    weights: Any = network
    state: Hidden = (x.new_zeros(len(x), network.hidden_size),) * tensors
    outputs = []
    for token in x.unbind(dim=1):
        inputs = token @ weights.weight_ih_l0.T + weights.bias_ih_l0
        state = cell(inputs, state[0] @ weights.weight_hh_l0.T + weights.bias_hh_l0, state)
        outputs.append(state[0])
    return torch.stack(outputs, dim=1)
    # learn: end


class Recurrent(nn.Module):
    """Unidirectional, or with ``both`` bidirectional, with half of the width for each direction.

    A ``window`` is truncated backpropagation through time (Williams & Peng 1990,
    https://doi.org/10.1162/neco.1990.2.4.490): the states are the same, but gradients stop at window boundaries.
    """

    def __init__(self, kind: Callable[..., nn.RNNBase], width: int, both: bool = False, window: int | None = None):
        super().__init__()
        if window is not None and window < 1:
            raise Problem(f"window={window} lets no gradient through: set at least 1 token, or None")
        self.window = window
        self.looks_ahead = "both=False" if both else ""
        backward = width // 2 if both else 0
        self.forwards: nn.Module = kind(width, width - backward, batch_first=True)
        self.backwards: nn.Module | None = kind(width, backward, batch_first=True) if both else None

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        if context.causal:
            refuse_looking_ahead(self)
        refuse_documents(self, context)
        if context.state is not None:
            return self.continue_from(x, context.state, context.new)
        if context.packing is not None:
            return context.packing.apply_padded(self.read, x)
        return self.read(x, context.real)

    def read(self, x: Tensor, real: Tensor | None) -> Tensor:
        """The states of whole sequences."""
        states, _ = self.run(self.forwards, x)  # padding comes last and cannot affect the real tokens
        if self.backwards is None:
            return states
        order = reversal(x, real)[..., None]
        back, _ = self.run(self.backwards, x.gather(1, order.expand_as(x)))
        return torch.cat([states, back.gather(1, order.expand_as(back))], dim=-1)

    def continue_from(self, x: Tensor, state: State, new: Tensor | None) -> Tensor:
        """Continue from the decoding state. Rows of different lengths are packed, so that each stops at its own end."""
        before = tuple(each.transpose(0, 1).contiguous() for each in state.carried.get(self, ()))  # torch's: (1, B, D)
        hidden = before if len(before) > 1 else before[0] if before else None
        if new is None:
            outputs, after = self.run(self.forwards, x, hidden)
        else:
            packed = nn.utils.rnn.pack_padded_sequence(x, new.cpu(), batch_first=True, enforce_sorted=False)
            outputs, after = self.forwards(packed, hidden)
            outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        after = after if isinstance(after, tuple) else (after,)
        state.carried[self] = tuple(each.transpose(0, 1) for each in after)
        return outputs

    def run(self, network: nn.Module, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """The states, and the last one as torch has it; with a window, no gradient flows from one window of tokens into
        the one before it."""
        if self.window is None:
            return network(x, state)
        states = []
        for piece in x.split(self.window, dim=1):
            outputs, state = network(piece, state)
            state = tuple(each.detach() for each in state) if isinstance(state, tuple) else state.detach()
            states.append(outputs)
        return torch.cat(states, dim=1), state


def reversal(x: Tensor, real: Tensor | None) -> Tensor:
    """(B, T): the indices that reverse the real tokens of each row; applied twice, they restore the order."""
    indices = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    if real is None:
        return x.shape[1] - 1 - indices
    return torch.where(real, real.sum(dim=1, keepdim=True) - 1 - indices, indices)


def rnn(width: int, both: bool = False, window: int | None = None) -> Recurrent:
    return Recurrent(nn.RNN, width, both, window)


def lstm(width: int, both: bool = False, window: int | None = None) -> Recurrent:
    return Recurrent(nn.LSTM, width, both, window)


def gru(width: int, both: bool = False, window: int | None = None) -> Recurrent:
    return Recurrent(nn.GRU, width, both, window)


MIXERS: dict[str, Callable[..., nn.Module]] = {"attention": SelfAttention, "rnn": rnn, "lstm": lstm, "gru": gru}
