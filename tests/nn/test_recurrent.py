"""Recurrent networks: torch's kernels against the formulas, both directions against a loop, exact gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from headway.config.errors import Problem
from headway.lab.gradients import probe
from headway.models import ModelSpec, build_decoder, build_encoder
from headway.nn import Context, Recurrent
from headway.nn.masks import real_tokens
from headway.nn.recurrent import CELLS, unroll
from headway.nn.state import State

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
    with pytest.raises(Problem, match="a recurrent part looks ahead, which a causal model must not do: set both=False"):
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


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_changes_no_state_and_bounds_the_reach_of_gradients(
    kind: Callable[..., nn.RNNBase], both: bool
) -> None:
    whole, cut = Recurrent(kind, 6, both), Recurrent(kind, 6, both, window=3)
    cut.load_state_dict(whole.state_dict())
    x = torch.randn(2, 8, 6, requires_grad=True)
    torch.testing.assert_close(cut(x), whole(x), atol=1e-6, rtol=1e-5)
    (gradient,) = torch.autograd.grad(cut(x)[:, 4].square().sum(), x)
    touched = gradient.abs().sum(dim=(0, 2)) > 0
    forward, backward = [False, False, False, True, True, False, False, False], [0, 0, 0, 0, 1, 0, 0, 0]
    expected = [one or bool(both and other) for one, other in zip(forward, backward, strict=True)]
    assert touched.tolist() == expected
    assert (torch.autograd.grad(whole(x)[:, 4].square().sum(), x)[0][:, 0].abs() > 0).all()


def test_the_measured_gradient_norms_are_those_of_the_jacobians() -> None:
    """Four random vectors estimate what all unit vectors give exactly."""
    spec = ModelSpec(layers=1, width=6, heads=1, mixer="rnn", norm="plain", feedforward="none", position="none")
    encoder = build_encoder(spec, vocabulary=9, length=12)
    tokens = torch.randint(9, (400, 12))
    x = encoder.embedding(tokens).detach().requires_grad_()
    last = encoder.stack(x)[:, -1]
    rows = [torch.autograd.grad(last[:, dimension].sum(), x, retain_graph=True)[0] for dimension in range(6)]
    exact = torch.stack(rows).square().sum(dim=(0, 3)).mean(dim=0).sqrt().flip(0)  # over distances
    torch.testing.assert_close(torch.tensor(probe(encoder, tokens)), exact, rtol=0.1, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_bounds_the_reach_of_gradients_with_a_carried_state_too(kind: Callable[..., nn.RNNBase]) -> None:
    whole, cut = Recurrent(kind, 6), Recurrent(kind, 6, window=3)
    cut.load_state_dict(whole.state_dict())
    x, state = torch.randn(2, 16, 6, requires_grad=True), State(2, 0, torch.device("cpu"))
    first, second = (cut(half, Context(state=state)) for half in x.split(8, dim=1))
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole(x), atol=1e-6, rtol=1e-5)
    for fifth, reached in ((first[:, 4], [3, 4]), (second[:, 4], [11, 12])):
        (gradient,) = torch.autograd.grad(fifth.square().sum(), x, retain_graph=True)
        assert (gradient.abs().sum(dim=(0, 2)) > 0).nonzero().flatten().tolist() == reached
