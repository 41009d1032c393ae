"""``attend``: the fused way and the readable way are one function."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from headway.nn import CrossAttention, RMSNorm, SelfAttention, attend, hard, soft, watch_attention
from headway.nn.attend import AttentionFunction
from headway.nn.masks import no_later, real_tokens


def heads(time: int = 5, count: int = 4, rows: int = 3, width: int = 8) -> Tensor:
    return torch.randn(rows, count, time, width, requires_grad=True)


def by_hand(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
    """One query at a time, in float64, with no softmax function at all."""
    out = torch.zeros_like(query, dtype=torch.float64)
    rows, count, time, width = query.shape
    for b, h, t in product(range(rows), range(count), range(time)):
        weights = {
            s: math.exp(
                (query[b, h, t].double() @ key[b, h, s].double()).item() / math.sqrt(width) + bias[h, t, s].item()
            )
            for s in range(key.shape[2])
            if mask[b, 0, t, s]
        }
        for s, weight in weights.items():
            out[b, h, t] += weight / sum(weights.values()) * value[b, h, s].double()
    return out


def readable(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """``soft`` under another name, for which there is no fused kernel."""
    return soft(query, key, mask, bias)


@pytest.mark.parametrize("attention_function", [soft, readable])
def test_the_formula(attention_function: AttentionFunction) -> None:
    query, key, value = heads(4), heads(6), heads(6)
    mask = torch.rand(3, 1, 4, 6) < 0.6
    bias = torch.randn(4, 4, 6)
    expected = by_hand(query, key, value, mask, bias)
    torch.testing.assert_close(
        attend(query, key, value, mask, bias, attention_function=attention_function).double(),
        expected,
        atol=1e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_fused_equals_readable(kv_heads: int, causal: bool, masked: bool, biased: bool) -> None:
    mask = real_tokens(torch.tensor([5, 2, 4]), 5)[:, None, None] if masked else None
    bias = torch.randn(4, 5, 5, requires_grad=True) if biased else None
    query, key, value = heads(), heads(count=kv_heads), heads(count=kv_heads)
    learned = [each for each in (query, key, value, bias) if each is not None]
    outputs, gradients = [], []
    for attention_function in (soft, readable):
        output = attend(query, key, value, mask, bias, causal=causal, attention_function=attention_function)
        outputs.append(output)
        gradients.append(torch.autograd.grad((output * torch.arange(8)).sum(), learned))
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
    allowed = torch.ones(3, 1, 5, 5, dtype=torch.bool) if mask is None else mask.expand(3, 1, 5, 5)
    allowed = allowed.tril() if causal else allowed
    group = 4 // kv_heads
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    expected = by_hand(query, key, value, allowed, torch.zeros(4, 5, 5) if bias is None else bias)
    torch.testing.assert_close(outputs[0].double(), expected, atol=1e-5, rtol=1e-5)
    for fused, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("attention_function", [soft, readable, hard])
@pytest.mark.parametrize("biased", [False, True])
def test_who_may_look_at_nothing_gets_zeros_and_zero_gradients(
    attention_function: AttentionFunction, biased: bool
) -> None:
    query, key, value = heads(), heads(), heads()
    mask = torch.ones(3, 1, 5, 5, dtype=torch.bool)
    mask[1] = False
    mask[2, :, 3] = False
    bias = torch.randn(4, 5, 5) if biased else None
    output = attend(query, key, value, mask, bias, attention_function=attention_function)
    assert output[1].abs().max() == 0
    assert output[2, :, 3].abs().max() == 0
    output.square().sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad[1].abs().max() == 0
    assert query.grad is not None
    assert query.grad[2, :, 3].abs().max() == 0


def test_the_last_query_sees_all_keys_when_there_are_more_of_them() -> None:
    query, key, value = heads(2), heads(5), heads(5)
    output = attend(query, key, value, causal=True)
    torch.testing.assert_close(output, attend(query, key, value, no_later(2, 5)))
    torch.testing.assert_close(output[:, :, 1:], attend(query[:, :, 1:], key, value))


def test_hard_attention_takes_the_best_key_and_learns_by_the_soft_gradient() -> None:
    query, key, value = heads(), heads(), heads()
    best = (query @ key.transpose(-2, -1)).argmax(dim=-1)
    expected = torch.take_along_dim(value, best[..., None], dim=2)
    torch.testing.assert_close(attend(query, key, value, attention_function=hard), expected)
    ones = torch.randn(3, 4, 5, 5)
    (hard_gradient,) = torch.autograd.grad((hard(query, key) * ones).sum(), query)
    (soft_gradient,) = torch.autograd.grad((soft(query, key) * ones).sum(), query)
    torch.testing.assert_close(hard_gradient, soft_gradient)


@pytest.mark.parametrize("attention_function", [soft, readable])
def test_dropout_on_the_weights(attention_function: AttentionFunction) -> None:
    """With all values 1, the output is the sum of the weights that are left: mean 1, and no longer 1 everywhere."""
    query, key, value = torch.randn(64, 4, 50, 8), torch.randn(64, 4, 50, 8), torch.ones(64, 4, 50, 8)
    output = attend(query, key, value, dropout=0.3, attention_function=attention_function)
    assert output.mean().item() == pytest.approx(1, abs=0.02)
    assert output.std().item() > 0.05


def test_a_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="width of 30 cannot be split into 4 heads"):
        SelfAttention(30, 4)
    with pytest.raises(ValueError, match="4 query heads cannot share 3 key heads"):
        SelfAttention(32, 4, kv_heads=3)


def test_cross_attention_needs_something_to_look_at() -> None:
    with pytest.raises(ValueError, match="nothing to look at"):
        CrossAttention(32, 4)(torch.randn(2, 3, 32))


def test_qk_norm_makes_scores_independent_of_the_queries_size() -> None:
    attention = SelfAttention(32, 4, qk_norm=RMSNorm)
    x = torch.randn(2, 5, 32)
    with torch.no_grad():
        attention.project.bias.zero_()
    with watch_attention(attention) as maps:
        attention(x)
        before = maps[""]
        attention(100 * x)
    torch.testing.assert_close(maps[""], before, atol=1e-4, rtol=1e-4)
