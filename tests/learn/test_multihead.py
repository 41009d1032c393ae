"""Ten right ways to write multi-head attention all pass. The 17 wrong ones are the exercise's own mistakes."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headway import learn
from headway.learn.catalogue import exercise
from headway.learn.exercise import FillIn


def hidden(scores: Tensor, context: Any) -> Tensor:
    return scores if context.mask is None else scores.masked_fill(~context.mask, -math.inf)


def with_the_parts_of_the_library(self: Any, x: Tensor, context: Any) -> Tensor:
    query, key, value = (self.split(each) for each in self.project(x).chunk(3, dim=-1))
    return self.mix(query, key, value, None, mask=context.mask)


def by_einsum(self: Any, x: Tensor, context: Any) -> Tensor:
    query, key, value = self.project(x).unflatten(-1, (3, self.heads, self.head_width)).unbind(2)
    scores = torch.einsum("bthk,bshk->bhts", query, key) / self.head_width**0.5
    mixed = torch.einsum("bhts,bshk->bthk", hidden(scores, context).softmax(-1), value)
    return self.output(mixed.flatten(2))


def a_loop_over_heads(self: Any, x: Tensor, context: Any) -> Tensor:
    query, key, value = self.project(x).chunk(3, dim=-1)
    outputs = []
    for head in range(self.heads):
        own = slice(head * self.head_width, (head + 1) * self.head_width)
        scores = query[..., own] @ key[..., own].transpose(1, 2) / math.sqrt(self.head_width)
        mask = None if context.mask is None else torch.broadcast_to(context.mask, (len(x), 1, *scores.shape[1:]))[:, 0]
        scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
        outputs.append(scores.softmax(-1) @ value[..., own])
    return self.output(torch.cat(outputs, dim=-1))


def fused(self: Any, x: Tensor, context: Any) -> Tensor:
    query, key, value = (self.split(each) for each in self.project(x).chunk(3, dim=-1))
    mixed = F.scaled_dot_product_attention(query, key, value, context.mask)
    return self.output(mixed.transpose(1, 2).flatten(2))


def with_heads_in_the_batch(self: Any, x: Tensor, context: Any) -> Tensor:
    batch, time, width = x.shape
    query, key, value = (
        each.reshape(batch, time, self.heads, -1).permute(0, 2, 1, 3).reshape(batch * self.heads, time, -1)
        for each in self.project(x).chunk(3, dim=-1)
    )
    scores = torch.bmm(query, key.transpose(1, 2)).view(batch, self.heads, time, time) / math.sqrt(self.head_width)
    weights = hidden(scores, context).softmax(-1).view(batch * self.heads, time, time)
    mixed = torch.bmm(weights, value).view(batch, self.heads, time, -1)
    return self.output(mixed.permute(0, 2, 1, 3).reshape(batch, time, width))


def scaled_before_the_product(self: Any, x: Tensor, context: Any) -> Tensor:
    query, key, value = (self.split(each) for each in self.project(x).chunk(3, dim=-1))
    scores = (query * self.head_width**-0.25) @ (key * self.head_width**-0.25).transpose(-2, -1)
    return self.output((hidden(scores, context).softmax(-1) @ value).transpose(1, 2).flatten(2))


def a_softmax_by_hand(self: Any, x: Tensor, context: Any) -> Tensor:
    query, key, value = (self.split(each) for each in self.project(x).chunk(3, dim=-1))
    scores = hidden(query @ key.transpose(-2, -1) / math.sqrt(self.head_width), context)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    mixed = (powers @ value) / powers.sum(-1, keepdim=True)
    return self.output(mixed.transpose(1, 2).flatten(2))


def with_three_matrices(self: Any, x: Tensor, context: Any) -> Tensor:
    matrices, biases = self.project.weight.chunk(3), self.project.bias.chunk(3)
    query, key, value = (self.split(x @ matrix.T + bias) for matrix, bias in zip(matrices, biases, strict=True))
    scores = query @ key.mT / math.sqrt(self.head_width)
    return self.output((hidden(scores, context).softmax(-1) @ value).transpose(1, 2).flatten(2))


def a_sum_over_heads(self: Any, x: Tensor, context: Any) -> Tensor:
    """The output matrix is cut instead of the heads being merged."""
    query, key, value = (self.split(each) for each in self.project(x).chunk(3, dim=-1))
    mixed = hidden(query @ key.mT / math.sqrt(self.head_width), context).softmax(-1) @ value
    pieces = self.output.weight.split(self.head_width, dim=1)
    return sum((mixed[:, head] @ pieces[head].T for head in range(self.heads)), self.output.bias)


def a_loop_over_rows(self: Any, x: Tensor, context: Any) -> Tensor:
    rows = []
    for number, row in enumerate(x):
        query, key, value = self.project(row).view(len(row), 3, self.heads, -1).permute(1, 2, 0, 3)
        scores = query @ key.mT / math.sqrt(self.head_width)
        if context.mask is not None:
            mask = context.mask.expand(len(x), -1, -1, -1) if context.mask.dim() == 4 else context.mask[None, None]
            scores = scores.masked_fill(~mask[min(number, len(mask) - 1)], -1e300)
        rows.append(self.output((scores.softmax(-1) @ value).transpose(0, 1).flatten(1)))
    return torch.stack(rows)


RIGHT = [
    *(with_the_parts_of_the_library, by_einsum, a_loop_over_heads, fused, with_heads_in_the_batch),
    *(scaled_before_the_product, a_softmax_by_hand, with_three_matrices, a_sum_over_heads, a_loop_over_rows),
]


@pytest.mark.parametrize("function", RIGHT)
def test_right_ones_pass(function: Callable[..., Any]) -> None:
    for seed in range(1, 6):
        assert learn.check("attn.multihead", function, seed).passed, seed


def test_there_are_17_wrong_ones_that_are_told_apart() -> None:
    found = exercise("attn.multihead")
    assert isinstance(found, FillIn)
    reports = [learn.check("attn.multihead", found.wrong(mistake)) for mistake in found.mistakes]
    assert len(reports) == len({each.report.advice for each in reports}) == 17
    assert not any(each.passed for each in reports)


def test_a_report_says_what_is_wrong_and_where() -> None:
    found = exercise("attn.multihead")
    assert isinstance(found, FillIn)
    text = repr(learn.check("attn.multihead", found.wrong(found.mistakes[1])))
    assert "FAIL  values" in text
    assert "sqrt(d_model) instead of sqrt(head size)" in text
    assert "difference" in text
    assert len(text.splitlines()) <= 15
