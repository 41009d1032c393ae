"""Multi-head attention as the library trains it, and the classical mistakes in it."""

from typing import Any

import torch

from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.learn.tracks.attention import MODULES, numbers
from headway.nn.attention import SelfAttention
from headway.nn.context import Context

of = Mistake.of
PLAIN = """
    def forward(self, x, context=NO_CONTEXT):
        import math
        batch, time, width = x.shape
        head_width = width // self.heads
        query, key, value = self.project(x).chunk(3, dim=-1)
        query = query.view(batch, time, self.heads, head_width).transpose(1, 2)
        key = key.view(batch, time, self.heads, head_width).transpose(1, 2)
        value = value.view(batch, time, self.heads, head_width).transpose(1, 2)
        scores = query @ key.transpose(-2, -1) / math.sqrt(head_width)
        if context.mask is not None:
            scores = scores.masked_fill(~context.mask, -math.inf)
        weights = scores.softmax(dim=-1)
        mixed = weights @ value
        merged = mixed.transpose(1, 2).reshape(batch, time, width)
        return self.output(merged)
"""
VIEW = ".view(batch, time, self.heads, head_width).transpose(1, 2)"


def attending(batch: int, time: int, width: int, heads: int, mask: Any = None) -> Args:
    return SelfAttention(width, heads).double(), numbers(batch, time, width), Context(mask=mask)


def changed_last_token(function: Any, args: Args) -> bool:
    """With a causal mask, the outputs before the last token stay the same, bit for bit."""
    module, x, _ = args
    causal = Context(mask=torch.ones(x.shape[1], x.shape[1]).tril().bool())
    other = x.clone()
    other[:, -1] += 1.0
    return torch.equal(function(module, x, causal)[:, :-1], function(module, other, causal)[:, :-1])


def changed_padding(function: Any, args: Args) -> bool:
    """What is in the padding changes no output of a real token."""
    module, x, _ = args
    real = torch.arange(x.shape[1]) < x.shape[1] - 1
    other = x.clone()
    other[:, -1] += 1.0
    context = Context(mask=real[None, None, None])
    return torch.allclose(function(module, x, context)[:, :-1], function(module, other, context)[:, :-1])


def other_order(function: Any, args: Args) -> bool:
    module, x, _ = args
    order = torch.arange(x.shape[1]).flip(0)
    return torch.allclose(function(module, x[:, order], Context()), function(module, x, Context())[:, order])


def rows_apart(function: Any, args: Args) -> bool:
    module, x, _ = args
    return torch.allclose(function(module, x, Context())[1:], function(module, x[1:], Context()))


MULTIHEAD = FillIn(
    id="attn.multihead",
    title="multi-head self-attention",
    task="""
    The forward pass of the layer that trains. x is (B, T, D). self.project maps it to queries, keys and values side by
    side (D to 3 D here), self.heads heads of width self.head_width attend, and self.output maps the merged heads back.

    context.mask is boolean, True means "may look"; it broadcasts to (B, H, T, S), or is None. Rotation, packed rows and
    decoding states, which the library's own layer also knows, are not in the cases. self.split(x) makes heads, and
    self.mix(query, key, value, None, mask=...) attends and merges: use them, or write all of it yourself.
    """,
    hints=(
        "Which shape must queries and keys have so that every head has its own matrix of scores?",
        "Split D into (H, K) and move H before T; attend; move H back behind T before merging, then apply the output.",
        "query, key, value = (self.split(each) for each in self.project(x).chunk(3, dim=-1)), then self.mix(...)",
    ),
    module=MODULES,
    plain=PLAIN,
    cases=lambda: {
        "three heads": attending(2, 5, 12, 3),
        "a causal mask": attending(2, 5, 12, 3, torch.ones(5, 5).tril().bool()),
        "padding": attending(2, 5, 12, 3, torch.tensor([[5], [2]])[:, None, None] > torch.arange(5)),
        "all but one token padded": attending(2, 4, 8, 2, torch.tensor([[1], [1]])[:, None, None] > torch.arange(4)),
        "one token": attending(2, 1, 8, 2),
        "one head": attending(2, 4, 8, 1),
        "a batch of one": attending(1, 5, 12, 4),
    },
    properties={
        "the future does not leak": changed_last_token,
        "padding does not leak": changed_padding,
        "another order of tokens gives the same in that order": other_order,
        "rows of a batch do not mix": rows_apart,
    },
    mistakes=[
        of(
            "This is what comes out when the scores are not scaled: divide them by the root of the head's width.",
            (" / math.sqrt(head_width)", ""),
        ),
        of(
            "This is what comes out when the scores are divided by sqrt(d_model) instead of sqrt(head size).",
            ("math.sqrt(head_width)", "math.sqrt(width)"),
        ),
        of(
            "This is what comes out when the scores are divided by the head size itself instead of its root.",
            ("math.sqrt(head_width)", "head_width"),
        ),
        of(
            "This is what comes out when the scores are divided by the root of the number of heads.",
            ("math.sqrt(head_width)", "math.sqrt(self.heads)"),
        ),
        of(
            "The softmax goes over the queries; it must go over the keys, the last dimension.",
            ("softmax(dim=-1)", "softmax(dim=-2)"),
        ),
        of(
            "The softmax goes over the heads; it must go over the keys, the last dimension.",
            ("softmax(dim=-1)", "softmax(dim=1)"),
        ),
        of("The mask is inverted: True means that a query may look.", ("~context.mask", "context.mask")),
        of("The mask is not used.", ("if context.mask is not None:", "if False:")),
        of("Hidden keys get the score 0, and exp(0) is 1: fill in minus infinity.", ("-math.inf", "0.0")),
        of(
            "Weights are set to 0 after the softmax, so that rows no longer add up to 1: mask the scores before it.",
            ("scores = scores.masked_fill(~context.mask, -math.inf)", "pass"),
            ("scores.softmax(dim=-1)", "scores.softmax(dim=-1) * (1 if context.mask is None else context.mask)"),
        ),
        of(
            "Queries and keys are swapped: the scores are those of the transpose.",
            ("query @ key.transpose", "key @ query.transpose"),
        ),
        of("Keys and values are swapped.", ("query, key, value = self.project", "query, value, key = self.project")),
        of(
            "Heads are made by a view alone, which mixes tokens with heads: first view, then transpose.",
            ("query = query" + VIEW, "query = query.reshape(batch, self.heads, time, head_width)"),
            ("key = key" + VIEW, "key = key.reshape(batch, self.heads, time, head_width)"),
            ("value = value" + VIEW, "value = value.reshape(batch, self.heads, time, head_width)"),
        ),
        of(
            "The heads are merged without moving them back behind the tokens: transpose before you reshape.",
            ("mixed.transpose(1, 2).reshape", "mixed.reshape"),
        ),
        of("The output projection is missing.", ("self.output(merged)", "merged")),
        of(
            "All of this is one head: the width was not split before the scores.",
            ("head_width = width // self.heads", "head_width = width"),
            ("query = query.view(batch, time, self.heads,", "query = query.view(batch, time, 1,"),
            ("key = key.view(batch, time, self.heads,", "key = key.view(batch, time, 1,"),
            ("value = value.view(batch, time, self.heads,", "value = value.view(batch, time, 1,"),
        ),
        of(
            "The input is added to the output; the residual is the block's business, not the layer's.",
            ("self.output(merged)", "self.output(merged) + x"),
        ),
    ],
)

EXERCISES: list[Exercise] = [MULTIHEAD]
