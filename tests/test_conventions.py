"""The factors of docs/reference/conventions.md, computed from the formulas of the papers in float64."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headway.nn.attend import soft
from headway.nn.dropout import drop_tokens
from headway.nn.embedding import Embedding
from headway.nn.feedforward import gelu
from headway.nn.positions import Alibi, Learned, Relative, Rotary, Sinusoidal
from headway.objectives.likelihood import RDrop, cross_entropy
from headway.objectives.policy_gradient import group_advantages, whiten
from headway.tasks.word2vec.model import VectorsSpec, WordVectorModel
from headway.tasks.word2vec.windows import keep_probability
from headway.training.average import ema
from headway.training.optimizers import OPTIMIZERS
from headway.training.schedules import cosine, inverse_square_root, linear


def test_the_relative_bias_is_outside_of_the_root_or_inside() -> None:
    query, key = torch.randn(2, 1, 2, 5, 9, dtype=torch.double).unbind()
    outside, inside = Relative(2, 5, head_width=9), Relative(2, 5, head_width=9, inside=True)
    nn.init.normal_(inside.table.weight)
    scores, places = query @ key.mT, torch.arange(5)
    toeplitz = inside.table.weight.double()[places - places[:, None] + 4].movedim(-1, 0)
    expected = ((scores + toeplitz) / 3).softmax(dim=-1)
    torch.testing.assert_close(soft(query, key, bias=inside.bias(places, places).double()), expected)
    with torch.no_grad():
        outside.table.weight.copy_(inside.table.weight / 3)
    torch.testing.assert_close(soft(query, key, bias=outside.bias(places, places).double()), expected)


def test_positions_are_permutations_of_the_papers() -> None:
    places = torch.arange(7)
    x = torch.randn(1, 1, 7, 6, dtype=torch.double)
    pairs = x[..., [0, 3, 1, 4, 2, 5]].unflatten(-1, (3, 2))  # the paper's pairs are neighbours
    angle = places[:, None] * 10_000.0 ** (-2 * torch.arange(3) / 6)
    turned = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle)
    expected = torch.view_as_real(turned).flatten(-2)[..., [0, 2, 4, 1, 3, 5]]
    torch.testing.assert_close(Rotary(6).rotate(places)(x), expected.to(x.dtype), rtol=1e-5, atol=1e-5)
    nothing = torch.zeros(1, 7, 6)
    interleaved = Sinusoidal(6).embed(nothing, places)
    torch.testing.assert_close(Sinusoidal(6, halves=True).embed(nothing, places), interleaved[..., [0, 2, 4, 1, 3, 5]])
    torch.testing.assert_close(Alibi(8).bias(places, places)[0], -0.5 * (places - places[:, None]).abs())


def test_sizes_at_the_start() -> None:
    table = Embedding(4000, 64)
    assert float(table.table.weight.detach().std()) * 8 == pytest.approx(1, abs=0.02)
    torch.testing.assert_close(table(torch.tensor([[3]]))[0, 0], table.table.weight[3] * 8)
    assert float(Learned(64, 2000).table.weight.detach().std()) == pytest.approx(1, abs=0.02)
    vectors = WordVectorModel(VectorsSpec(500, 500, np.arange(501), np.arange(500), False, "full"), 50)
    assert float(vectors.inputs.detach().abs().max()) == pytest.approx(1 / 50, rel=0.01)


def test_activations_and_dropout() -> None:
    x = torch.linspace(-6, 6, 10_001, dtype=torch.double)
    exact = x * torch.special.ndtr(x)
    torch.testing.assert_close(gelu(1, 1).activation(x), exact)
    assert 4e-4 < float((gelu(1, 1, tanh=True).activation(x) - exact).abs().max()) < 5e-4
    kept = drop_tokens(None, torch.zeros(100, 100), 0.3, training=True)
    assert kept is not None
    assert kept.dtype is torch.bool  # nothing is scaled


def test_label_smoothing_is_over_all_classes() -> None:
    logits, targets = torch.randn(6, 10, dtype=torch.double), torch.randint(10, (6,))
    log_probs = logits.log_softmax(dim=-1)
    theirs = 0.1  # fairseq's, over the others
    right, all_of_them = log_probs.gather(1, targets[:, None])[:, 0], log_probs.sum(dim=1)
    expected = -((1 - theirs) * right + theirs / 9 * (all_of_them - right)).sum()
    torch.testing.assert_close(cross_entropy(logits, targets, smoothing=theirs * 10 / 9).total, expected)


def test_r_drop_is_half_of_the_papers() -> None:
    logits, targets = torch.randn(8, 10, dtype=torch.double), torch.randint(10, (4,))
    (p, q), alpha = logits.log_softmax(dim=-1).chunk(2), 3.0
    likelihoods = F.nll_loss(p, targets, reduction="sum") + F.nll_loss(q, targets, reduction="sum")
    divergences = (p.exp() * (p - q)).sum() + (q.exp() * (q - p)).sum()
    paper = likelihoods + alpha / 2 * divergences
    torch.testing.assert_close(RDrop(alpha, smoothing=0.0)(logits, targets, None).total, paper / 2)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_optimizers_by_hand(name: str) -> None:
    model = nn.Linear(3, 2).double()
    rate, decay, weight, bias = 0.1, 0.05, model.weight.detach().clone(), model.bias.detach().clone()
    (optimizer,) = OPTIMIZERS[name](model, rate, decay)
    mean, square, velocity = torch.zeros(3, 2, 3, dtype=torch.double).unbind()
    for step in range(1, 4):
        gradient = torch.randn(2, 3, dtype=torch.double)
        model.weight.grad, model.bias.grad = gradient.clone(), torch.zeros(2, dtype=torch.double)
        optimizer.step()
        if name != "adamw":
            gradient = gradient + decay * weight
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        velocity = 0.9 * velocity + gradient
        move = mean / (1 - 0.9**step) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        if name == "adamw":
            weight = weight - rate * decay * weight
        weight = weight - rate * (velocity if name == "sgd" else move)
        torch.testing.assert_close(model.weight.detach(), weight)
    torch.testing.assert_close(model.bias.detach(), bias)  # no decay


def test_schedules_beside_those_of_others() -> None:
    width, warmup = 512, 4000
    for step in (1, 10, 4000, 9000):
        noam = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert inverse_square_root(step, warmup) / math.sqrt(width * warmup) == pytest.approx(noam)
    transformers = pytest.importorskip("transformers")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    for ours, theirs in {
        linear: transformers.get_linear_schedule_with_warmup(optimizer, 5, 20),
        cosine: transformers.get_cosine_schedule_with_warmup(optimizer, 5, 20),
    }.items():
        (rate,) = theirs.lr_lambdas
        assert [ours(step, 5, 20) for step in range(21)] == pytest.approx([rate(step) for step in range(21)])
        assert ours(1, 5, 20) == pytest.approx(0.2)  # of the first step,
        assert rate(0) == 0  # and theirs


def test_the_moving_average_is_faster_at_first() -> None:
    assert [ema(1), ema(9), ema(10**6)] == pytest.approx([0.9, 0.5, 0.001])


def test_spreads_are_those_of_a_population() -> None:
    rewards = torch.randn(8, dtype=torch.double)
    groups = rewards.view(2, 4)
    unbiased = (groups - groups.mean(dim=1, keepdim=True)) / groups.std(dim=1, keepdim=True)
    ours = group_advantages(rewards, torch.tensor([5, 5, 5, 5, 2, 2, 2, 2])).view(2, 4)
    torch.testing.assert_close(ours, unbiased * math.sqrt(4 / 3))
    everywhere: Any = torch.ones(8, dtype=torch.bool)
    torch.testing.assert_close(whiten(rewards, everywhere), (rewards - rewards.mean()) / rewards.std(correction=0))


def test_subsampling_is_that_of_the_code() -> None:
    counts, sample = np.array([900, 90, 10]), 0.01
    share = np.sqrt(sample / (counts / 1000))
    np.testing.assert_allclose(keep_probability(counts, sample), np.minimum(share * (1 + share), 1))
