"""Attention: from one head to several, with masks, memory and a cache."""

import torch
from torch import Tensor

from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.nn.attention import Attention

WRITTEN, ATTEND, MODULES = "headway.learn.written_out", "headway.nn.attend", "headway.nn.attention"
of = Mistake.of


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.double)


def matrices(length: int, width: int, head: int) -> Args:
    return numbers(length, width), numbers(width, head), numbers(width, head), numbers(width, head)


def rows_sum_to_one(function: object, args: Args) -> bool:
    weights = function(*args)  # type: ignore[operator]
    return torch.allclose(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))


def order_is_kept(function: object, args: Args) -> bool:
    """Without positions, rows in another order give the same outputs in that order."""
    x, *others = args
    order = torch.arange(len(x)).flip(0)
    return torch.allclose(function(x[order], *others), function(x, *others)[order])  # type: ignore[operator]


SCALED = FillIn(
    id="attn.scaled",
    title="scaled dot-product attention weights",
    task="""
    Write the function that every Transformer here trains with. Queries (B, H, T, K) and keys (B, H, S, K) give the
    attention weights (B, H, T, S): softmax(Q K^T / sqrt(K) + bias), over the keys.

    The mask is boolean, True means "may look"; it and the bias may be None, and both broadcast. A query that may look
    at nothing gets zeros, not NaN.
    """,
    hints=(
        "Which dimension do the scores share with the keys, and over which of them must the weights add up to 1?",
        "Scores of hidden keys must become so small that their exponential is 0, before the softmax; minus infinity "
        "everywhere in a row would be 0 / 0.",
        "scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(~mask, 0.0)",
    ),
    module=ATTEND,
    cases=lambda: {
        "two heads": (numbers(2, 2, 5, 4), numbers(2, 2, 5, 4), None, None),
        "a mask": (numbers(2, 2, 3, 4), numbers(2, 2, 5, 4), torch.arange(5) < 3, None),
        "a bias": (numbers(2, 2, 5, 4), numbers(2, 2, 5, 4), torch.ones(5, 5).tril().bool(), numbers(2, 5, 5)),
        "one token": (numbers(1, 1, 1, 4), numbers(1, 1, 1, 4), None, None),
        "all but one key hidden": (numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), torch.arange(5) < 1, None),
        "a query that sees nothing": (numbers(1, 1, 2, 4), numbers(1, 1, 3, 4), torch.eye(2, 3).bool() & False, None),
    },
    properties={"rows sum to 1": rows_sum_to_one},
    mistakes=[
        of("The scores are not divided by anything.", (" / math.sqrt(query.shape[-1])", "")),
        of(
            "The scores are divided by the width of a head, not by its root.",
            ("math.sqrt(query.shape[-1])", "query.shape[-1]"),
        ),
        of(
            "The scores are multiplied by the root of the width instead of divided by it.",
            (" / math.sqrt", " * math.sqrt"),
        ),
        of(
            "The root is taken of the number of keys; it should be of the width of a head.",
            ("math.sqrt(query.shape[-1])", "math.sqrt(key.shape[-2])"),
        ),
        of(
            "The softmax goes over the queries (dim=-2) instead of over the keys.",
            ("return scores.softmax(dim=-1)", "return scores.softmax(dim=-2)"),
            ("lowest).softmax(dim=-1)", "lowest).softmax(dim=-2)"),
        ),
        of(
            "The mask is inverted: True means that a query may look.",
            ("scores.masked_fill(~mask, lowest)", "scores.masked_fill(mask, lowest)"),
            (".masked_fill(~mask, 0.0)", ".masked_fill(mask, 0.0)"),
        ),
        of("The mask is not used.", ("if mask is None:", "if True:")),
        of("The bias is not used.", ("scores = scores + bias", "pass")),
        of(
            "The bias is added before the scores are divided by the root, and so is divided too.",
            ("scores = scores + bias", "scores = scores + bias / math.sqrt(query.shape[-1])"),
        ),
        of(
            "Hidden keys get a score of 0, which is not small: exp(0) is 1. Fill in the lowest number.",
            ("torch.finfo(scores.dtype).min", "0.0"),
            (".softmax(dim=-1).masked_fill(~mask, 0.0)", ".softmax(dim=-1)"),
        ),
        of(
            "Weights are set to zero after the softmax only, so that the rows no longer add up to 1.",
            ("scores.masked_fill(~mask, lowest).softmax", "scores.softmax"),
        ),
        of(
            "A query that may look at nothing gets equal weights instead of zeros.",
            (".softmax(dim=-1).masked_fill(~mask, 0.0)", ".softmax(dim=-1)"),
        ),
        of(
            "A query that may look at nothing gets NaN: minus infinity in a whole row is 0 / 0.",
            ("torch.finfo(scores.dtype).min", "-math.inf"),
            (".softmax(dim=-1).masked_fill(~mask, 0.0)", ".softmax(dim=-1)"),
        ),
    ],
)

SELF = FillIn(
    id="attn.self",
    title="self-attention of one head, as products of matrices",
    task="""
    Project X (L, D) with three matrices to queries, keys and values (L, d), score every query with every key, divide by
    the root of d, take the softmax of each row, and mix the values. No batch, no mask: four products of matrices.
    """,
    hints=(
        "What shape does Q K^T have, and what does its row i say?",
        "Row i of the weights says how much of each value goes into row i of the output: a product from the left.",
        "(x @ queries @ (x @ keys).T / math.sqrt(queries.shape[1])).softmax(dim=-1) @ (x @ values)",
    ),
    module=WRITTEN,
    cases=lambda: {
        "five tokens": matrices(5, 6, 4),
        "one token": matrices(1, 6, 4),
        "as wide as the input": matrices(4, 4, 4),
        "a head wider than the input": matrices(6, 3, 9),
    },
    properties={"another order of the rows gives the same in that order": order_is_kept},
    mistakes=[
        of("The scores are not divided by the root of d.", (" / math.sqrt(query.shape[-1])", "")),
        of("The scores are divided by d, not by its root.", ("math.sqrt(query.shape[-1])", "query.shape[-1]")),
        of(
            "The root is taken of D, the width of the input; it should be of d.",
            ("math.sqrt(query.shape[-1])", "math.sqrt(x.shape[-1])"),
        ),
        of(
            "The root is taken of the number of tokens; it should be of d.",
            ("math.sqrt(query.shape[-1])", "math.sqrt(len(x))"),
        ),
        of("The softmax goes down the columns instead of along the rows.", ("dim=-1", "dim=0")),
        of("Queries and keys are swapped.", ("query @ key.T", "key @ query.T")),
        of(
            "The values are not projected with their own matrix, but with that of the keys.", ("x @ values", "x @ keys")
        ),
        of("The scores are mixed, without a softmax.", (".softmax(dim=-1)", "")),
        of("Queries and keys come from the same matrix.", ("x @ queries, x @ keys", "x @ queries, x @ queries")),
    ],
)

HEADS = FillIn(
    id="attn.heads",
    title="multi-head attention by concatenating heads",
    task="""
    Several heads, each with matrices of its own (H, D, K): attend in each head, put the results side by side, and
    multiply them by the output matrix (H K, D). A loop over the heads is fine.
    """,
    hints=(
        "How wide are the results of all heads side by side?",
        "Along which dimension do you concatenate: tokens stay tokens.",
        "return torch.cat(mixed, dim=-1) @ output",
    ),
    module=WRITTEN,
    cases=lambda: {
        "three heads": (numbers(5, 6), numbers(3, 6, 2), numbers(3, 6, 2), numbers(3, 6, 2), numbers(6, 6)),
        "one head": (numbers(4, 6), numbers(1, 6, 6), numbers(1, 6, 6), numbers(1, 6, 6), numbers(6, 6)),
        "wide heads": (numbers(2, 4), numbers(2, 4, 5), numbers(2, 4, 5), numbers(2, 4, 5), numbers(10, 4)),
    },
    properties={"another order of the rows gives the same in that order": order_is_kept},
    mistakes=[
        of("The scores are not divided by the root of the width of a head.", (" / math.sqrt(query.shape[-1])", "")),
        of(
            "The root is taken of the model's width; it should be of a head's.",
            ("math.sqrt(query.shape[-1])", "math.sqrt(x.shape[-1])"),
        ),
        of("The output matrix is missing: heads are only put side by side.", ("dim=-1) @ output", "dim=-1)")),
        of(
            "The heads are in the wrong order: the first one comes first.",
            ("torch.cat(mixed,", "torch.cat(mixed[::-1],"),
        ),
        of(
            "Numbers of the heads alternate instead of standing side by side, head after head.",
            ("torch.cat(mixed, dim=-1) @", "torch.stack(mixed, dim=-1).flatten(-2) @"),
        ),
        of(
            "The softmax goes over the queries instead of over the keys.",
            ("scores.softmax(dim=-1)", "scores.softmax(dim=0)"),
        ),
    ],
)

SPLIT = FillIn(
    id="attn.split",
    title="from one wide vector per token to heads",
    task="""
    (B, T, H K) becomes (B, H, T, K): each token's vector is cut into H neighbouring pieces of width K =
    self.head_width. H is not self.heads here (keys may have fewer heads): it follows from the width of x.
    """,
    hints=(
        "Does a reshape move numbers in memory, or only name the same numbers differently?",
        "First cut the last dimension in two (view), then swap two dimensions (transpose): a view to the final "
        "shape would mix tokens with heads.",
        "return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)",
    ),
    module=MODULES,
    cases=lambda: {
        "three heads": (Attention(12, 3).double(), numbers(2, 5, 12)),
        "one head": (Attention(6, 1).double(), numbers(2, 4, 6)),
        "fewer key heads": (Attention(12, 4, 2).double(), numbers(1, 3, 6)),
        "one token": (Attention(12, 3).double(), numbers(2, 1, 12)),
    },
    mistakes=[
        of(
            "The numbers of tokens and heads are mixed: a view straight to (B, H, T, K) reads them in the wrong order.",
            (
                "x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)",
                "x.reshape(len(x), -1, x.shape[1], self.head_width)",
            ),
        ),
        of(
            "A head takes every H-th number; it should take K neighbours.",
            (
                "x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)",
                "x.view(*x.shape[:2], self.head_width, -1).permute(0, 3, 1, 2)",
            ),
        ),
        of("Heads and tokens are not swapped: this is (B, T, H, K).", (".transpose(1, 2)", "")),
    ],
)

EXERCISES: list[Exercise] = [SELF, SCALED, HEADS, SPLIT]
