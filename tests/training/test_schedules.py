"""Schedules, with numbers worked out by hand."""

import math

import pytest
import torch

from headway.config.recipe import TrainSpec
from headway.training.schedules import SCHEDULES, constant, cosine, inverse_square_root, linear, warmup_stable_decay


def test_constant() -> None:
    assert [constant(step) for step in (0, 1, 100)] == [1, 1, 1]


def test_linear() -> None:
    assert linear(0, 10, 110) == 0
    assert linear(5, 10, 110) == 0.5
    assert linear(10, 10, 110) == 1
    assert linear(60, 10, 110) == 0.5
    assert linear(110, 10, 110) == 0
    assert linear(0, 0, 100) == 1
    assert linear(50, 0, 100) == 0.5


def test_cosine() -> None:
    """It peaks at 1, whatever the warm-up, and equals torch's from there."""
    assert [cosine(step, 10, 110) for step in (0, 5, 10, 60)] == pytest.approx([0, 0.5, 1, 0.5])
    assert cosine(110, 10, 110) == pytest.approx(0)
    for warmup in (0, 1, 40, 99):
        assert max(cosine(step, warmup, 100) for step in range(101)) == pytest.approx(1)
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100 - warmup)
        for step in range(warmup, 101):
            assert cosine(step, warmup, 100) == pytest.approx(theirs.get_last_lr()[0], abs=1e-9)
            optimizer.step()
            theirs.step()
    assert max(cosine(step, 200, 100) for step in range(101)) <= 0.5  # nothing but warm-up


def test_cosine_from_the_first_step() -> None:
    assert cosine(5, 10, 100, from_peak=False) == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.05)) / 2)
    assert cosine(10, 10, 100, from_peak=False) == pytest.approx((1 + math.cos(math.pi / 10)) / 2)
    assert cosine(100, 10, 100, from_peak=False) == pytest.approx(0)


def test_inverse_square_root() -> None:
    assert inverse_square_root(0, 100) == 0
    assert inverse_square_root(50, 100) == 0.5
    assert inverse_square_root(100, 100) == 1
    assert inverse_square_root(400, 100) == 0.5
    assert inverse_square_root(4, 0) == 0.5


def test_warmup_stable_decay() -> None:
    assert warmup_stable_decay(0, 10, 100) == 0
    assert warmup_stable_decay(10, 10, 100) == 1
    assert warmup_stable_decay(80, 10, 100) == 1
    assert warmup_stable_decay(90, 10, 100) == pytest.approx(0.5)
    assert warmup_stable_decay(100, 10, 100) == 0
    assert warmup_stable_decay(75, 10, 100, decay=0.5) == 0.5


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 7, 50])
def test_factors_lie_between_0_and_1(name: str, warmup: int) -> None:
    from headway.config.parts import bind

    spec = TrainSpec(steps=50)
    schedule = bind(SCHEDULES, name, "train.schedule", warmup=warmup, steps=spec.steps)
    assert all(0 <= schedule(step) <= 1 for step in range(spec.steps + 1))
    assert any(schedule(step) > 0 for step in range(1, spec.steps + 1))
