"""Recurrent networks: cells, how they run along a sequence, and how gradients come back."""

from typing import Any

from torch import nn

from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers

of = Mistake.of
RECURRENT = "headway.nn.recurrent"


def step(gates: int, tensors: int) -> Args:
    return numbers(2, gates * 4), numbers(2, gates * 4), tuple(numbers(2, 4) for _ in range(tensors))


def cell(
    id: str, title: str, task: str, gates: int, tensors: int, hints: tuple[str, ...], mistakes: list[Mistake]
) -> FillIn:
    return FillIn(
        id=id,
        title=title,
        task=task,
        hints=hints,
        module=RECURRENT,
        cases=lambda: {"a step": step(gates, tensors), "another one": step(gates, tensors)},
        mistakes=mistakes,
    )


ELMAN = cell(
    "rnn.elman",
    "the cell of a simple recurrent network",
    """
    inputs is W x + b, hidden is U h + b, both (B, D); the new state is h = tanh(W x + U h + b). Return a tuple of the
    tensors of the state: here it is one.
    """,
    1,
    1,
    (
        "What do the two sums have to become, so that states stay between -1 and 1?",
        "tanh of their sum, in a tuple of one.",
    ),
    [
        of("The tanh is missing.", ("torch.tanh(inputs + hidden)", "inputs + hidden")),
        of("The old state is not used.", ("inputs + hidden", "inputs")),
        of(
            "Each part has a tanh of its own; it goes over the sum.",
            ("torch.tanh(inputs + hidden)", "torch.tanh(inputs) + torch.tanh(hidden)"),
        ),
        of(
            "This is a sigmoid; states should lie between -1 and 1.",
            ("torch.tanh(inputs + hidden)", "torch.sigmoid(inputs + hidden)"),
        ),
        of("The old state itself is added, besides U h.", ("inputs + hidden", "inputs + hidden + state[0]")),
    ],
)
LSTM = cell(
    "rnn.lstm",
    "the LSTM cell",
    """
    inputs (W x + b) and hidden (U h + b) are (B, 4 D); their sum holds, side by side: input gate i, forget gate f,
    candidate g, output gate o. Gates go through a sigmoid, the candidate through tanh. With the old memory c =
    state[1]: c = f c + i g, and h = o tanh(c). Return (h, c).
    """,
    4,
    2,
    (
        "Which gate decides what is kept of the old memory?",
        "Cut the sum into four with chunk, in the order i, f, g, o.",
    ),
    [
        of(
            "Input and forget gate are swapped: the order is i, f, g, o.",
            ("input_gate, forget_gate, new, output_gate =", "forget_gate, input_gate, new, output_gate ="),
        ),
        of(
            "Candidate and output gate are swapped: the order is i, f, g, o.",
            ("new, output_gate =", "output_gate, new ="),
        ),
        of(
            "The memory is not squashed before it goes out: h = o tanh(c).", ("memory.tanh(), memory", "memory, memory")
        ),
        of("The candidate goes through a sigmoid; it should be tanh.", ("new.tanh()", "new.sigmoid()")),
        of("The forget gate is applied to h, not to the memory: the memory is state[1].", ("* state[1]", "* state[0]")),
        of("Nothing is forgotten: the forget gate is missing.", ("forget_gate.sigmoid() * state[1]", "state[1]")),
        of(
            "The input gate is tied to the forget gate (1 - f); here it is a gate of its own.",
            ("input_gate.sigmoid() * new", "(1 - forget_gate.sigmoid()) * new"),
        ),
        of(
            "h and c are returned in the wrong order.",
            (
                "return output_gate.sigmoid() * memory.tanh(), memory",
                "return memory, output_gate.sigmoid() * memory.tanh()",
            ),
        ),
    ],
)
GRU = cell(
    "rnn.gru",
    "the GRU cell",
    """
    inputs (W x + b) and hidden (U h + b) are (B, 3 D) and hold, side by side: reset r, update z, candidate n. r and
    z are sigmoids of the sums. n = tanh(inputs + r * hidden): the reset gate acts on U h + b. With the old state h
    = state[0], the new one is (1 - z) n + z h. Return it in a tuple.
    """,
    3,
    1,
    (
        "If the update gate is 1, does the state change?",
        "Both inputs and hidden are cut in three; only the first two parts are added as they are.",
    ),
    [
        of(
            "The update gate is inverted: z keeps the old state.",
            ("(1 - update) * new + update * state[0]", "update * new + (1 - update) * state[0]"),
        ),
        of(
            "Reset and update gate are swapped: the order is r, z, n.",
            (
                "reset, update = (reset_in + reset_hidden).sigmoid(), (update_in + update_hidden).sigmoid()",
                "update, reset = (reset_in + reset_hidden).sigmoid(), (update_in + update_hidden).sigmoid()",
            ),
        ),
        of("The reset gate is not used.", ("new_in + reset * new_hidden", "new_in + new_hidden")),
        of(
            "The reset gate acts on the input, too; it belongs to U h + b alone.",
            ("new_in + reset * new_hidden", "reset * (new_in + new_hidden)"),
        ),
        of("The reset gate acts on the old state instead of on U h + b.", ("reset * new_hidden", "reset * state[0]")),
        of("The candidate goes through a sigmoid; it should be tanh.", ("torch.tanh(", "torch.sigmoid(")),
    ],
)


def network(kind: Any) -> Args:
    return kind(3, 4, batch_first=True).double(), numbers(2, 5, 3)


UNROLL = FillIn(
    id="rnn.unroll",
    title="running a cell along a sequence",
    task="""
    x is (B, T, D). CELLS[type(network)] gives the cell and how many tensors its state has; all start as zeros. For each
    token, inputs are token @ network.weight_ih_l0.T + network.bias_ih_l0, and hidden is the first tensor of the state
    @ network.weight_hh_l0.T + network.bias_hh_l0. Return the first tensors of all states, (B, T, D).
    """,
    hints=(
        "What does the cell of the second token get from the first one?",
        "A loop over x.unbind(dim=1), which replaces the state; stack the outputs along dimension 1.",
    ),
    module=RECURRENT,
    cases=lambda: {"RNN": network(nn.RNN), "LSTM": network(nn.LSTM), "GRU": network(nn.GRU)},
    mistakes=[
        of(
            "Each token starts from an empty state: keep the state that the cell returns.",
            ("state = cell(inputs, state[0]", "fresh = cell(inputs, state[0]"),
            ("outputs.append(state[0])", "outputs.append(fresh[0])"),
        ),
        of("The sequence is read backwards.", ("x.unbind(dim=1)", "x.flip(1).unbind(dim=1)")),
        of(
            "The bias of the hidden part is missing.",
            ("state[0] @ weights.weight_hh_l0.T + weights.bias_hh_l0", "state[0] @ weights.weight_hh_l0.T"),
        ),
        of(
            "The matrices are swapped, or not transposed.",
            ("weights.weight_hh_l0.T", "weights.weight_hh_l0.unflatten(0, (-1, 4)).transpose(1, 2).flatten(0, 1).T"),
        ),
    ],
)
BPTT = FillIn(
    id="rnn.bptt",
    title="backpropagation through time, without autograd",
    task="""
    A linear network h[t] = W h[t - 1], with the loss |h[T] - target|^2 / 2 at its end. states holds h[0] ... h[T].
    Return the gradient of W: the sum over all steps of the error at that step times the state before it. Going back
    one step multiplies the error by the transpose of W: after k steps, by its k-th power.
    """,
    hints=(
        "What is the derivative of the loss with respect to h[T]? And to h[T - 1]?",
        "From the last step to the first: add outer(error, state before), then error = W^T error.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "three steps": (numbers(3, 3), numbers(4, 3), numbers(3)),
        "one step": (numbers(2, 2), numbers(2, 2), numbers(2)),
        "no step": (numbers(2, 2), numbers(1, 2), numbers(2)),
    },
    mistakes=[
        of("The error goes back through W; it must be its transpose.", ("matrix.T @ error", "matrix @ error")),
        of(
            "The outer product is transposed: rows belong to the error.",
            ("torch.outer(error, state)", "torch.outer(state, error)"),
        ),
        of(
            "Only the last step counts: the error goes back to earlier ones, too.",
            ("states[:-1].flip(0)", "states[:-1].flip(0)[:1]"),
        ),
        of("The error stays the same at all steps.", ("error = matrix.T @ error", "pass")),
        of(
            "The steps are taken from the first to the last; the error goes back from the last.",
            ("states[:-1].flip(0)", "states[:-1]"),
        ),
        of("The sign of the error is wrong: state minus target.", ("states[-1] - target", "target - states[-1]")),
        of(
            "The derivative of a half of a square has no factor 2.",
            ("error = states[-1] - target", "error = 2 * (states[-1] - target)"),
        ),
    ],
)

EXERCISES: list[Exercise] = [ELMAN, LSTM, GRU, UNROLL, BPTT]
