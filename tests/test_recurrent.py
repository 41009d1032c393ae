"""Recurrent networks: torch's kernels against the formulas, both directions against a loop, exact gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from headway.errors import Problem
from headway.models import ModelSpec, build_decoder
from headway.nn import Context, Recurrent
from headway.nn.masks import real_tokens
from headway.nn.recurrent import CELLS, unroll

KINDS = list(CELLS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_fast_path_is_the_formula(kind: Callable[..., nn.RNNBase]) -> None:
    network, x = kind(6, 8, batch_first=True), torch.randn(3, 7, 6, requires_grad=True)
    weights = [x, *network.parameters()]
    fast, _ = network(x)
    plain = unroll(network, x)
    torch.testing.assert_close(fast, plain, atol=1e-6, rtol=1e-5)
    seed = torch.randn_like(fast)
    gradients = [torch.autograd.grad((states * seed).sum(), weights) for states in (fast, plain)]
    for one, another in zip(*gradients, strict=True):
        torch.testing.assert_close(one, another, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_read_each_row_from_its_own_end(kind: Callable[..., nn.RNNBase]) -> None:
    mixer, x, lengths = Recurrent(kind, 7, both=True), torch.randn(3, 6, 7), [6, 1, 4]
    states = mixer(x, Context(real=real_tokens(torch.tensor(lengths), 6)))
    assert states.shape == x.shape
    assert isinstance(mixer.forwards, nn.RNNBase)
    assert isinstance(mixer.backwards, nn.RNNBase)
    for row, length in enumerate(lengths):
        alone = x[row : row + 1, :length]
        forwards, backwards = unroll(mixer.forwards, alone), unroll(mixer.backwards, alone.flip(1)).flip(1)
        expected = torch.cat([forwards, backwards], dim=-1)[0]
        torch.testing.assert_close(states[row, :length], expected, atol=1e-6, rtol=1e-5)


def test_a_causal_model_refuses_to_read_backwards() -> None:
    with pytest.raises(Problem, match="a recurrent part looks ahead, which a causal model must not: set both=False"):
        build_decoder(ModelSpec(mixer="lstm(both=True)"), vocabulary=5, length=4)
    with pytest.raises(Problem, match="both=False"):
        Recurrent(nn.GRU, 4, both=True)(torch.randn(1, 3, 4), Context(causal=True))


@pytest.mark.parametrize("distance", [1, 5, 20])
def test_the_gradient_of_a_linear_network_is_a_power_of_its_matrix(distance: int) -> None:
    """Without the tanh, h[T] is the sum over t of U^(T - t) (W x[t] + b): so its gradient by x[0] is U^T W."""
    network = nn.RNN(3, 4, batch_first=True).double()
    x = torch.randn(1, distance + 1, 3, dtype=torch.float64, requires_grad=True)
    last = unroll(network, x, cell=lambda inputs, hidden, state: (inputs + hidden,))[0, -1]
    rows = [torch.autograd.grad(number, x, retain_graph=True)[0][0, 0] for number in last]
    expected = torch.linalg.matrix_power(network.weight_hh_l0, distance) @ network.weight_ih_l0
    torch.testing.assert_close(torch.stack(rows), expected)
