"""Muon against torch.optim.Muon."""

import pytest
import torch
from torch import nn

from headway.training.muon import Muon

SHAPES = [(8, 4), (4, 8), (8, 4), (5, 5), (1, 6), (8, 4)]


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_muon_is_that_of_torch_in_float64(weight_decay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both run Newton-Schulz in bf16, where the order of operations shows; here they run it in float64 and agree.

    Ours handles all matrices of a shape in one batch; torch's has the same defaults (Nesterov momentum, five rounds
    with the same coefficients, the learning rate times sqrt(max(1, rows / columns)))."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.double)
    ours = [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in SHAPES]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    start = [weight.detach().clone() for weight in ours]
    optimizers = Muon(ours, 0.02, weight_decay, 0.95), torch.optim.Muon(theirs, 0.02, weight_decay, 0.95)
    for step in range(5):
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            without = index == 5 or (index == 1 and step == 2)  # the last never has a gradient, the second not always
            our.grad = None if without else torch.randn_like(our)
            their.grad = None if our.grad is None else our.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
        for our, their in zip(ours, theirs, strict=True):
            torch.testing.assert_close(our, their, atol=1e-12, rtol=1e-12)
    assert [not torch.equal(weight, before) for weight, before in zip(ours, start, strict=True)] == [True] * 5 + [False]
