"""Learning from preferences and rewards: losses and estimators are what they are by hand, in float64."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from headway.objectives import policy_gradient as policy
from headway.objectives import preference

RANKS = {2: [[0, 1], [1, 0], [0, 0]], 3: [[2, 0, 1], [0, 0, 1]], 4: [[3, 1, 0, 2], [0, 1, 1, 0], [5, 5, 5, 5]]}


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def log_sigmoid(x: float) -> float:
    return -math.log(1 + math.exp(-x))


def slow_ranked(rewards: list[float], ranks: list[int]) -> float:
    total, pairs = 0.0, 0
    for i, j in itertools.combinations(range(len(ranks)), 2):
        apart = rewards[i] - rewards[j]
        if ranks[i] == ranks[j]:
            total -= (log_sigmoid(apart) + log_sigmoid(-apart)) / 2
        else:
            total -= log_sigmoid(apart if ranks[i] < ranks[j] else -apart)
        pairs += 1
    assert pairs == math.comb(len(ranks), 2)
    return total / pairs


@pytest.mark.parametrize("answers", RANKS)
def test_ranked_answers_are_judged_pair_by_pair(answers: int) -> None:
    sets = RANKS[answers]
    rewards = randn(len(sets) * answers)
    prompts = torch.arange(len(sets)).repeat_interleave(answers)
    order = torch.randperm(len(rewards), generator=torch.Generator().manual_seed(1))  # prompts need not stand together
    ranks = torch.tensor(sets).flatten()
    expected = sum(
        slow_ranked(own.tolist(), own_ranks) for own, own_ranks in zip(rewards.split(answers), sets, strict=True)
    )
    found = preference.ranked(rewards[order], ranks[order], prompts[order])
    assert found.total.item() == pytest.approx(expected, abs=1e-12)
    assert found.count == len(sets)
    torch.autograd.gradcheck(lambda r: preference.ranked(r, ranks, prompts).total, rewards.requires_grad_())


def test_prompts_count_alike_and_one_answer_says_nothing() -> None:
    rewards, ranks, prompts = randn(6), torch.tensor([0, 1, 2, 3, 1, 0]), torch.tensor([7, 7, 7, 7, 3, 5])
    found = preference.ranked(rewards, ranks, prompts)
    assert found.count == 1
    assert found.total.item() == pytest.approx(slow_ranked(rewards[:4].tolist(), [0, 1, 2, 3]))


def test_direct_preference_is_about_how_much_likelier_an_answer_became() -> None:
    logs, before, beta = randn(2, seed=1), randn(2, seed=2), 0.3
    found = preference.direct(logs, before, torch.tensor([1, 0]), torch.zeros(2, dtype=torch.long), beta)
    apart = beta * ((logs[1] - before[1]) - (logs[0] - before[0]))
    assert found.total.item() == pytest.approx(-log_sigmoid(apart.item()))


def test_estimators_of_the_divergence() -> None:
    """Over all tokens, weighted by the policy, k1 and k3 are the divergence; k2 is near it for near policies."""
    scores = randn(50, seed=3)
    now, before = scores.log_softmax(0), (scores + 0.1 * randn(50, seed=4)).log_softmax(0)
    exact = (now.exp() * (now - before)).sum().item()
    means = {name: (now.exp() * estimate(now, before)).sum().item() for name, estimate in policy.ESTIMATORS.items()}
    assert means["k1"] == pytest.approx(exact, rel=1e-12)
    assert means["k3"] == pytest.approx(exact, rel=1e-12)
    assert 1e-6 < abs(means["k2"] / exact - 1) < 0.2
    assert (policy.k2(now, before) >= 0).all()
    assert (policy.k3(now, before) >= 0).all()
    assert policy.k1(now, before).min() < 0
    x = before - now
    torch.testing.assert_close(policy.k3(now, before), x.exp() - 1 - x)
    torch.testing.assert_close(policy.k2(now, before), x**2 / 2)
    for estimate in policy.ESTIMATORS.values():
        torch.autograd.gradcheck(estimate, (now.clone().requires_grad_(), before))


LENGTHS = torch.tensor([5, 1, 3])
REAL = torch.arange(5) < LENGTHS[:, None]


@pytest.mark.parametrize(("discount", "trace"), [(1.0, 0.95), (0.9, 1.0), (0.7, 0.0), (0.0, 0.5)])
def test_advantages_are_sums_of_surprises(discount: float, trace: float) -> None:
    rewards, values = randn(3, 5, seed=5), randn(3, 5, seed=6)
    found = policy.advantages(rewards, values, REAL, discount, trace)
    for row, length in enumerate(LENGTHS.tolist()):
        later = 0.0
        for place in reversed(range(length)):
            after = values[row, place + 1].item() if place + 1 < length else 0.0
            surprise = rewards[row, place].item() + discount * after - values[row, place].item()
            later = surprise + discount * trace * later
            assert found[row, place].item() == pytest.approx(later, abs=1e-12)
        assert (found[row, length:] == 0).all()


def test_whitened_is_about_what_counts() -> None:
    values = randn(3, 5, seed=7)
    found = policy.whitened(values, REAL)
    assert found[REAL].mean().item() == pytest.approx(0, abs=1e-12)
    assert found[REAL].std(correction=0).item() == pytest.approx(1)
    assert (found[~REAL] == 0).all()
    assert policy.whitened(torch.ones(3, 5), REAL).abs().max() == 0  # all alike: none is better
    for size in (8, 20, 100):
        alike = torch.full((size, 3), 0.7)
        assert policy.whitened(alike, torch.ones(size, 3, dtype=torch.bool)).abs().max() < 0.01


def test_answers_are_judged_within_their_group() -> None:
    rewards, prompts = torch.tensor([1.0, 5.0, 3.0, 2.0, 2.0], dtype=torch.float64), torch.tensor([9, 4, 9, 4, 4])
    found = policy.above_their_group(rewards, prompts)
    spread = math.sqrt(2)
    torch.testing.assert_close(found, torch.tensor([-1, spread, 1, -spread / 2, -spread / 2], dtype=torch.float64))
    for size in (3, 8, 16):  # such means are rounded
        for reward in (2.0, 0.1, 1 / 3):
            alike = policy.above_their_group(torch.full((size,), reward), torch.zeros(size))
            assert alike.abs().max() < 1e-3


def test_clipped_gains() -> None:
    logs, old, advantage, reach = 0.4 * randn(9, 5, seed=8), 0.4 * randn(9, 5, seed=9), randn(9, 5, seed=10), 0.2
    real = REAL.repeat(3, 1)
    found = policy.clipped(logs, old, advantage, real, reach)
    expected, beyond = 0.0, set()
    for row, place in real.nonzero().tolist():
        ratio, gain = math.exp((logs - old)[row, place]), advantage[row, place].item()
        near = min(max(ratio, 1 - reach), 1 + reach)
        beyond.add((ratio != near, gain > 0, ratio > 1))
        expected -= min(ratio * gain, near * gain)
    assert len(beyond) == 8  # both signs, both sides, within and beyond the range
    assert found.total.item() == pytest.approx(expected, abs=1e-12)
    assert found.count == 27
    torch.autograd.gradcheck(lambda x: policy.clipped(x, old, advantage, real, reach).total, logs.requires_grad_())


def test_at_the_start_the_gradient_is_that_of_the_policy() -> None:
    """With a ratio of 1: minus the advantage times the gradient of the log-probability."""
    old, advantage = randn(3, 5, seed=11), randn(3, 5, seed=12)
    logs = old.clone().requires_grad_()
    policy.clipped(logs, old, advantage, REAL, 0.2).total.backward()
    assert logs.grad is not None
    torch.testing.assert_close(logs.grad, torch.where(REAL, -advantage, 0.0))


def test_clipped_values() -> None:
    values, old, returns, reach = randn(3, 5, seed=13), randn(3, 5, seed=14), randn(3, 5, seed=15), 0.5
    expected = 0.0
    for row, place in REAL.nonzero().tolist():
        value, before, wanted = (each[row, place].item() for each in (values, old, returns))
        near = before + min(max(value - before, -reach), reach)
        expected += max((value - wanted) ** 2, (near - wanted) ** 2) / 2
    found = policy.clipped_values(values, old, returns, REAL, reach)
    assert found.total.item() == pytest.approx(expected, abs=1e-12)
    torch.autograd.gradcheck(
        lambda x: policy.clipped_values(x, old, returns, REAL, reach).total, values.requires_grad_()
    )


def test_entropy() -> None:
    scores = randn(3, 5, 7, seed=16)
    found = policy.entropy(scores, REAL)
    expected = torch.distributions.Categorical(logits=scores).entropy()[REAL].sum()
    assert found.total.item() == pytest.approx(expected.item(), abs=1e-12)
    assert found.count == 9
    torch.autograd.gradcheck(lambda x: policy.entropy(x, REAL).total, scores.requires_grad_())
