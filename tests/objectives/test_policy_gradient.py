"""Learning from preferences and rewards: losses and estimators are what they are by hand, in float64."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import shake
from headway.models import ModelSpec
from headway.models.build import build_decoder_and_reference
from headway.objectives import policy_gradient as policy
from headway.objectives import preference
from headway.tasks.rlhf.dpo import Dpo
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.rankings import Rankings

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
    result = preference.ranking_loss(rewards[order], ranks[order], prompts[order])
    assert result.total.item() == pytest.approx(expected, abs=1e-12)
    assert result.count == len(sets)
    torch.autograd.gradcheck(lambda r: preference.ranking_loss(r, ranks, prompts).total, rewards.requires_grad_())


def test_prompts_count_alike_and_one_answer_says_nothing() -> None:
    rewards, ranks, prompts = randn(6), torch.tensor([0, 1, 2, 3, 1, 0]), torch.tensor([7, 7, 7, 7, 3, 5])
    result = preference.ranking_loss(rewards, ranks, prompts)
    assert result.count == 1
    assert result.total.item() == pytest.approx(slow_ranked(rewards[:4].tolist(), [0, 1, 2, 3]))


def test_the_rewards_of_dpo_are_log_ratios_of_whole_answers() -> None:
    """One sequence at a time, in float64: beta times the log-ratio of policy and reference, summed over the answer."""
    torch.manual_seed(3)
    spec = ModelSpec(layers=1, width=8, heads=2, hidden=12)
    model = PolicyWithReference(*build_decoder_and_reference(spec, 11, 9, None))
    for decoder in (model.decoder, model.reference):
        assert decoder is not None
        shake(decoder)
    prompts = [np.array([3, 4]), np.array([5])]
    answers = [[np.array([6, 7, 2]), np.array([8, 2])], [np.array([9, 9, 9, 2]), np.array([2]), np.array([10, 2])]]
    ranks, beta = [[0.0, 1.0], [1.0, 0.0, 1.0]], 0.3
    batch = Rankings.of(prompts, answers, ranks).batch(np.arange(2))
    task: Any = SimpleNamespace(recipe=SimpleNamespace(data=SimpleNamespace(beta=beta)))
    rewards = Dpo.rewards(task, model, batch)

    expected: list[list[float]] = []
    for prompt, own_answers in zip(prompts, answers, strict=True):
        expected.append([])
        for answer in own_answers:
            tokens = torch.from_numpy(np.concatenate([prompt, answer]))
            difference = 0.0
            for decoder, sign in ((model.decoder, 1), (model.reference, -1)):
                assert decoder is not None
                log_probs = decoder(tokens[None])[0].double().log_softmax(dim=-1)
                positions = range(len(prompt), len(tokens))
                difference += sign * sum(log_probs[position - 1, tokens[position]].item() for position in positions)
            expected[-1].append(beta * difference)
    assert rewards.tolist() == pytest.approx(list(itertools.chain(*expected)), abs=1e-5)
    assert max(abs(reward) for own in expected for reward in own) > 0.01
    loss = preference.ranking_loss(rewards, batch.targets, batch.prompt_ids)
    by_hand = [
        slow_ranked(own, [int(rank) for rank in own_ranks]) for own, own_ranks in zip(expected, ranks, strict=True)
    ]
    assert loss.total.item() == pytest.approx(sum(by_hand), abs=1e-5)


def test_estimators_of_the_divergence() -> None:
    """Over all tokens, weighted by the policy, k1 and k3 are the divergence; k2 is near it for near policies."""
    logits = randn(50, seed=3)
    now, before = logits.log_softmax(0), (logits + 0.1 * randn(50, seed=4)).log_softmax(0)
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


@pytest.mark.parametrize(("discount", "gae_lambda"), [(1.0, 0.95), (0.9, 1.0), (0.7, 0.0), (0.0, 0.5)])
def test_advantages_are_sums_of_surprises(discount: float, gae_lambda: float) -> None:
    rewards, values = randn(3, 5, seed=5), randn(3, 5, seed=6)
    result = policy.advantages(rewards, values, REAL, discount, gae_lambda)
    for row, length in enumerate(LENGTHS.tolist()):
        later = 0.0
        for position in reversed(range(length)):
            after = values[row, position + 1].item() if position + 1 < length else 0.0
            error = rewards[row, position].item() + discount * after - values[row, position].item()
            later = error + discount * gae_lambda * later
            assert result[row, position].item() == pytest.approx(later, abs=1e-12)
        assert (result[row, length:] == 0).all()


def test_whitened_is_about_what_counts() -> None:
    values = randn(3, 5, seed=7)
    result = policy.whiten(values, REAL)
    assert result[REAL].mean().item() == pytest.approx(0, abs=1e-12)
    assert result[REAL].std(correction=0).item() == pytest.approx(1)
    assert (result[~REAL] == 0).all()
    assert policy.whiten(torch.ones(3, 5), REAL).abs().max() == 0  # all alike: none is better
    for size in (8, 20, 100):
        alike = torch.full((size, 3), 0.7)
        assert policy.whiten(alike, torch.ones(size, 3, dtype=torch.bool)).abs().max() < 0.01


def test_answers_are_judged_within_their_group() -> None:
    rewards, prompts = torch.tensor([1.0, 5.0, 3.0, 2.0, 2.0], dtype=torch.float64), torch.tensor([9, 4, 9, 4, 4])
    result = policy.group_advantages(rewards, prompts)
    spread = math.sqrt(2)
    torch.testing.assert_close(result, torch.tensor([-1, spread, 1, -spread / 2, -spread / 2], dtype=torch.float64))
    for size in (3, 8, 16):  # such means are rounded
        for reward in (2.0, 0.1, 1 / 3):
            alike = policy.group_advantages(torch.full((size,), reward), torch.zeros(size))
            assert alike.abs().max() < 1e-3


def test_clipped_gains() -> None:
    log_probs, old, advantage, clip_range = (
        0.4 * randn(9, 5, seed=8),
        0.4 * randn(9, 5, seed=9),
        randn(9, 5, seed=10),
        0.2,
    )
    real = REAL.repeat(3, 1)
    result = policy.ppo_loss(log_probs, old, advantage, real, clip_range)
    expected, beyond = 0.0, set()
    for row, position in real.nonzero().tolist():
        ratio, gain = math.exp((log_probs - old)[row, position]), advantage[row, position].item()
        near = min(max(ratio, 1 - clip_range), 1 + clip_range)
        beyond.add((ratio != near, gain > 0, ratio > 1))
        expected -= min(ratio * gain, near * gain)
    assert len(beyond) == 8  # both signs, both sides, within and beyond the range
    assert result.total.item() == pytest.approx(expected, abs=1e-12)
    assert result.count == 27
    torch.autograd.gradcheck(
        lambda x: policy.ppo_loss(x, old, advantage, real, clip_range).total, log_probs.requires_grad_()
    )


def test_at_the_start_the_gradient_is_that_of_the_policy() -> None:
    """With a ratio of 1: minus the advantage times the gradient of the log-probability."""
    old, advantage = randn(3, 5, seed=11), randn(3, 5, seed=12)
    log_probs = old.clone().requires_grad_()
    policy.ppo_loss(log_probs, old, advantage, REAL, 0.2).total.backward()
    assert log_probs.grad is not None
    torch.testing.assert_close(log_probs.grad, torch.where(REAL, -advantage, 0.0))


def test_clipped_values() -> None:
    values, old, returns, clip_range = randn(3, 5, seed=13), randn(3, 5, seed=14), randn(3, 5, seed=15), 0.5
    expected = 0.0
    for row, position in REAL.nonzero().tolist():
        value, before, wanted = (each[row, position].item() for each in (values, old, returns))
        near = before + min(max(value - before, -clip_range), clip_range)
        expected += max((value - wanted) ** 2, (near - wanted) ** 2) / 2
    result = policy.value_loss(values, old, returns, REAL, clip_range)
    assert result.total.item() == pytest.approx(expected, abs=1e-12)
    torch.autograd.gradcheck(
        lambda x: policy.value_loss(x, old, returns, REAL, clip_range).total, values.requires_grad_()
    )


def test_entropy() -> None:
    logits = randn(3, 5, 7, seed=16)
    result = policy.entropy(logits, REAL)
    expected = torch.distributions.Categorical(logits=logits).entropy()[REAL].sum()
    assert result.total.item() == pytest.approx(expected.item(), abs=1e-12)
    assert result.count == 9
    torch.autograd.gradcheck(lambda x: policy.entropy(x, REAL).total, logits.requires_grad_())
