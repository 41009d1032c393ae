"""Blocks: sublayers, residuals and norms."""

from typing import Any

import torch
from torch import nn

from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers
from headway.nn import block
from headway.nn.block import IgnoringContext, LayerNorm
from headway.nn.feedforward import FeedForward, Gated, Neighbourhood

of = Mistake.of
BLOCK, FEEDFORWARD = "headway.nn.block", "headway.nn.feedforward"


def placed(kind: Any) -> Args:
    """A sublayer that is no identity, inside a residual connection."""
    norm = LayerNorm(6)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return kind(IgnoringContext(nn.Sequential(nn.Linear(6, 6), nn.Tanh())), norm).double(), numbers(2, 5, 6)


def in_order(id: str, name: str, kind: Any, formula: str, hints: tuple[str, ...], mistakes: list[Mistake]) -> FillIn:
    return FillIn(
        id=id,
        title=f"the residual connection, {name}",
        task=f"""
        A block is made of sublayers (attention, feed-forward), each inside a residual connection with a norm. Here
        it is {formula}.

        self.sublayer takes x and the context, self.norm takes x. drop(value, self.dropout, self.training) drops out.
        """,
        hints=hints,
        module=BLOCK,
        cases=lambda: {"a batch of two": placed(kind), "one token": (placed(kind)[0], numbers(1, 1, 6))},
        mistakes=mistakes,
    )


PRE = in_order(
    "block.pre",
    "pre-norm",
    block.PreNorm,
    "x + f(norm(x)): the residual path stays free from the first block to the last",
    (
        "What does a block compute whose sublayer gives zeros?",
        "The norm comes before the sublayer, and x itself is added without a norm.",
    ),
    [
        of(
            "This is post-norm: the norm comes after the sum.",
            (
                "x + drop(self.sublayer(self.norm(x), context), self.dropout, self.training)",
                "self.norm(x + drop(self.sublayer(x, context), self.dropout, self.training))",
            ),
        ),
        of("The residual is missing.", ("return x + drop", "return drop")),
        of("The norm is missing.", ("self.norm(x)", "x")),
        of(
            "What is added is the normalised x; the residual path should stay free.",
            ("return x +", "return self.norm(x) +"),
        ),
        of(
            "The norm comes after the sublayer, not before it.",
            ("self.sublayer(self.norm(x), context)", "self.norm(self.sublayer(x, context))"),
        ),
    ],
)
POST = in_order(
    "block.post",
    "post-norm",
    block.PostNorm,
    "norm(x + f(x)), as in the first Transformer",
    (
        "What is the mean of every output vector, before the scale and the shift of the norm?",
        "First add, then normalise the sum.",
    ),
    [
        of(
            "This is pre-norm: the norm must come after the sum.",
            (
                "self.norm(x + drop(self.sublayer(x, context), self.dropout, self.training))",
                "x + drop(self.sublayer(self.norm(x), context), self.dropout, self.training)",
            ),
        ),
        of("The residual is missing.", ("self.norm(x + drop", "self.norm(drop")),
        of("The norm is missing.", ("self.norm(x + ", "(x + ")),
        of(
            "The norm comes before the sum.",
            (
                "self.norm(x + drop(self.sublayer(x, context), self.dropout, self.training))",
                "x + self.norm(drop(self.sublayer(x, context), self.dropout, self.training))",
            ),
        ),
    ],
)


def rezero() -> Args:
    module = block.ReZero(IgnoringContext(nn.Linear(6, 6))).double()
    with torch.no_grad():
        module.scale.fill_(0.3)
    return module, numbers(2, 5, 6)


REZERO = FillIn(
    id="block.rezero",
    title="the residual connection, ReZero",
    task="""
    x + a f(x), with a scalar a = self.scale that is learned and starts at zero: at first, a deep stack is the identity.
    drop(value, self.dropout, self.training) drops out.
    """,
    hints=("What does the block compute before the first step of training?", "Scale what the sublayer gives, not x."),
    module=BLOCK,
    cases=lambda: {
        "a batch of two": rezero(),
        "at the start": (block.ReZero(IgnoringContext(nn.Linear(6, 6))).double(), numbers(1, 2, 6)),
    },
    mistakes=[
        of("The scale is not used.", ("self.scale * ", "")),
        of(
            "The sum is scaled; only what the sublayer gives should be.",
            (
                "x + self.scale * drop(self.sublayer(x, context), self.dropout, self.training)",
                "self.scale * (x + drop(self.sublayer(x, context), self.dropout, self.training))",
            ),
        ),
        of("The residual is missing.", ("return x + ", "return ")),
    ],
)
LAYERNORM = FillIn(
    id="block.layernorm",
    title="layer norm",
    task="""
    Every vector of x (..., D) gets mean 0 and variance 1, then a learned scale (weight) and shift (bias):
    (x - mean) / sqrt(variance + eps) * weight + bias. The variance is that of the population, without a correction.
    """,
    hints=(
        "Over which numbers is the mean taken: those of a token, or those of a batch?",
        "Over the last dimension, which you keep (keepdim) so that the shapes fit.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "a batch": (numbers(2, 5, 6), numbers(6), numbers(6)),
        "equal numbers": (torch.ones(1, 2, 4, dtype=torch.double), numbers(4), numbers(4)),
        "small numbers": (1e-3 * numbers(3, 4), numbers(4), numbers(4)),
    },
    mistakes=[
        of(
            "The variance is divided by D - 1; layer norm divides by D.",
            (
                "(x - mean).square().mean(dim=-1, keepdim=True)",
                "(x - mean).square().sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)",
            ),
        ),
        of("This divides by the variance, not by its root.", ("torch.sqrt(variance + eps)", "(variance + eps)")),
        of(
            "eps is added to the root; it belongs under it.",
            ("torch.sqrt(variance + eps)", "(torch.sqrt(variance) + eps)"),
        ),
        of("eps is missing.", ("variance + eps", "variance")),
        of("The mean is not subtracted: this is nearly RMS norm.", ("return (x - mean)", "return x")),
        of("Scale and shift are missing.", (" * weight + bias", "")),
        of(
            "The shift is scaled, too.",
            ("/ torch.sqrt(variance + eps) * weight + bias", "/ torch.sqrt(variance + eps) * weight + bias * weight"),
        ),
        of(
            "The mean is taken over the tokens; it must be over the numbers of each token.",
            ("x.mean(dim=-1, keepdim=True)", "x.mean(dim=-2, keepdim=True)"),
            (".square().mean(dim=-1, keepdim=True)", ".square().mean(dim=-2, keepdim=True)"),
        ),
    ],
)
RELU = FillIn(
    id="block.feedforward",
    title="the feed-forward network",
    task="""
    Each token by itself: self.inner makes it wider, self.activation (ReLU, say) bends it, self.outer brings it back
    to its width. drop(value, self.dropout, self.training) drops out the hidden numbers.
    """,
    hints=(
        "Could two linear layers without anything between them do more than one?",
        "outer(activation(inner(x))), with the dropout on what outer reads.",
    ),
    module=FEEDFORWARD,
    cases=lambda: {
        "with biases": (FeedForward(6, 10).double(), numbers(2, 5, 6)),
        "without biases": (FeedForward(6, 10, bias=False).double(), numbers(1, 1, 6)),
    },
    mistakes=[
        of(
            "The activation is missing: two linear layers in a row are one.",
            ("self.activation(self.inner(x))", "self.inner(x)"),
        ),
        of(
            "The activation comes after the second layer, too.",
            (
                "return self.outer(drop(self.activation(self.inner(x)), self.dropout, self.training))",
                "return self.activation(self.outer(drop(self.activation(self.inner(x)), self.dropout, self.training)))",
            ),
        ),
        of(
            "The activation comes after the second layer instead of after the first.",
            (
                "self.outer(drop(self.activation(self.inner(x)), self.dropout, self.training))",
                "self.activation(self.outer(self.inner(x)))",
            ),
        ),
        of("The input is added: the residual is the block's business.", ("return self.outer", "return x + self.outer")),
    ],
)
GATED = FillIn(
    id="block.gated",
    title="a gated feed-forward network (SwiGLU)",
    task="""
    self.inner gives twice as many hidden numbers. The activation (self.activation) of the first half gates the
    second half: the two are multiplied. self.outer brings it back to the width; drop(value, self.dropout,
    self.training) drops out.
    """,
    hints=("Which half goes through the activation?", "chunk(2, dim=-1) gives gate and value."),
    module=FEEDFORWARD,
    cases=lambda: {
        "a batch": (Gated(6, 10, torch.nn.functional.silu).double(), numbers(2, 5, 6)),
        "one token": (Gated(4, 3, torch.relu).double(), numbers(1, 1, 4)),
    },
    mistakes=[
        of("The halves are swapped: the first one is the gate.", ("gate, value =", "value, gate =")),
        of(
            "The gate is added instead of multiplied.",
            ("self.activation(gate) * value", "self.activation(gate) + value"),
        ),
        of("Both halves go through the activation.", ("* value", "* self.activation(value)")),
        of(
            "Hidden numbers alternate between gate and value; they are two halves.",
            ("self.inner(x).chunk(2, dim=-1)", "self.inner(x).unflatten(-1, (-1, 2)).unbind(-1)"),
        ),
    ],
)
NEIGHBOURS = FillIn(
    id="block.neighbours",
    title="an MLP that also reads its neighbours",
    task="""
    padded (B, T + n - 1, D) has self.before tokens of padding in front and self.after behind it; n is self.before + 1 +
    self.after. Return (B, T, n D): each token together with its neighbours, the earliest first.
    """,
    hints=(
        "How many windows of n tokens are there?",
        "unfold(1, n, 1) gives (B, T, D, n); each window should list whole tokens, one after the other.",
    ),
    module=FEEDFORWARD,
    cases=lambda: {
        "two before, one after": (Neighbourhood(4, 5), numbers(2, 8, 4)),
        "only itself": (Neighbourhood(4, 5, 0, 0), numbers(1, 3, 4)),
        "one after": (Neighbourhood(3, 5, 0, 1), numbers(1, 4, 3)),
    },
    mistakes=[
        of(
            "In each window, numbers are ordered by dimension, not by token.",
            (".transpose(-2, -1).flatten(-2)", ".flatten(-2)"),
        ),
        of(
            "The last neighbour comes first.",
            (
                "padded.unfold(1, self.before + 1 + self.after, 1)",
                "padded.unfold(1, self.before + 1 + self.after, 1).flip(-1)",
            ),
        ),
    ],
)

EXERCISES: list[Exercise] = [LAYERNORM, RELU, PRE, POST, REZERO, GATED, NEIGHBOURS]
