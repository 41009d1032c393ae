"""More attention: over another text, all on one key, and one token at a time."""

import torch

from headway.learn.exercise import Exercise, FillIn, Mistake
from headway.learn.tracks.attention import ATTEND, MODULES, WRITTEN, numbers, rows_sum_to_one
from headway.nn.attention import CrossAttention
from headway.nn.context import Context

of = Mistake.of

CROSS = FillIn(
    id="attn.cross",
    title="cross-attention: queries from the decoder, keys and values from the encoder",
    task="""
    Queries come from x, keys and values from context.memory, unless they are given. self.query, self.key, self.value
    and self.output are linear layers; self.split makes heads, self.mix attends, merges the heads and applies the
    output.

    Only what is in the cases is checked: context.memory and context.memory_mask, or keys and values as arguments
    (values default to the keys). Without anything to look at, raise a Problem.
    """,
    hints=(
        "Which of the three projections reads the text that is being written?",
        "Split each of the three into heads; the mask of the memory hides the padding of the source.",
        "return self.mix(query, keys, values, context.state, mask=context.memory_mask)",
    ),
    module=MODULES,
    cases=lambda: {
        "a memory": (CrossAttention(6, 2).double(), numbers(2, 3, 6), Context(memory=numbers(2, 5, 6))),
        "padding": (
            CrossAttention(6, 2).double(),
            numbers(2, 3, 6),
            Context(memory=numbers(2, 5, 6), memory_mask=torch.tensor([[5], [1]])[:, None, None] > torch.arange(5)),
        ),
        "keys as arguments": (CrossAttention(6, 3).double(), numbers(1, 1, 6), Context(), numbers(1, 4, 6)),
        "values of their own": (
            CrossAttention(6, 3).double(),
            numbers(1, 2, 6),
            Context(),
            numbers(1, 4, 6),
            numbers(1, 4, 6),
        ),
    },
    mistakes=[
        of(
            "Keys and values are swapped.",
            ("self.mix(query, keys, values, context.state, mask", "self.mix(query, values, keys, context.state, mask"),
        ),
        of(
            "The mask of the memory is not used: queries see the padding of the source.",
            ("mask=context.memory_mask", "mask=None"),
        ),
        of("Values that are given are not used.", ("value = key if value is None else value", "value = key")),
        of("The queries are not projected.", ("self.split(self.query(x))", "self.split(x)")),
        of("Queries come from the projection of the keys.", ("self.split(self.query(x))", "self.split(self.key(x))")),
        of(
            "The memory is not projected: keys and values need their own matrices.",
            (
                "project = partial(self.project_memory, key, value)",
                "project = lambda: (self.split(key), self.split(value))",
            ),
        ),
    ],
)

HARD = FillIn(
    id="attn.hard",
    title="hard attention: all weight on the best key",
    task="""
    Weight 1 on the best key, 0 elsewhere; the first one in a tie, and zeros for a query that may look at nothing. The
    gradient should be that of the soft weights, which you get from soft(query, key, mask, bias): a straight-through
    estimator. The value is hard, the derivative soft.
    """,
    hints=(
        "argmax has no gradient. What can you add that is zero, but whose gradient is not?",
        "x - x.detach() is zero, and has the gradient of x.",
        "return best + (weights - weights.detach())",
    ),
    module=ATTEND,
    cases=lambda: {
        "two heads": (numbers(2, 2, 5, 4), numbers(2, 2, 5, 4)),
        "a mask": (numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), torch.arange(5) < 2),
        "a query that sees nothing": (numbers(1, 1, 2, 4), numbers(1, 1, 3, 4), torch.zeros(2, 3, dtype=torch.bool)),
        "a bias": (numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), None, numbers(2, 3, 5)),
    },
    properties={"rows sum to 1": rows_sum_to_one},
    mistakes=[
        of("These are the soft weights.", ("best + (weights - weights.detach())", "weights")),
        of("The weight is on the worst key.", ("argmax", "argmin")),
        of("A query that may look at nothing looks at the first key.", ("best = best.masked_fill(~mask, 0.0)", "pass")),
        of(
            "The mask is not used.",
            ("soft(query, key, mask, bias)", "soft(query, key, None, bias)"),
            ("~mask, 0.0", "mask & ~mask, 0.0"),
        ),
        of("The bias is not used.", ("soft(query, key, mask, bias)", "soft(query, key, mask, None)")),
        of("The soft weights are added instead of only their gradient.", ("(weights - weights.detach())", "weights")),
    ],
)

CACHE = FillIn(
    id="attn.cache",
    title="one step of decoding with a key-value cache",
    task="""
    While a text is written, keys and values of earlier tokens do not change: they are kept. For the newest token, put
    its key and value after those that are kept, attend with its query, and return the output with both caches.
    """,
    hints=(
        "Does the newest token look at itself?",
        "Append first, then attend; no mask is needed, because everything in the cache is earlier.",
        "keys, values = torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2)",
    ),
    module=WRITTEN,
    cases=lambda: {
        f"{length} tokens before": (
            *(numbers(2, 3, 1, 4) for _ in range(3)),
            *(numbers(2, 3, length, 4) for _ in range(2)),
        )
        for length in (4, 1, 0)
    },
    mistakes=[
        of(
            "The newest token does not see itself.",
            ("query @ keys.transpose", "query @ keys[:, :, :-1].transpose"),
            ("dim=-1) @ values", "dim=-1) @ values[:, :, :-1]"),
        ),
        of(
            "The new key and value stand before those of earlier tokens.",
            ("[keys, key]", "[key, keys]"),
            ("[values, value]", "[value, values]"),
        ),
        of("The key is appended to the values; it should be the value.", ("[values, value]", "[values, key]")),
        of("The scores are not divided by the root of the width.", (" / math.sqrt(query.shape[-1])", "")),
        of(
            "The caches that are returned lack the newest token.",
            ("@ values, keys, values", "@ values, keys[:, :, :-1], values[:, :, :-1]"),
        ),
        of("The root is that of the number of keys.", ("math.sqrt(query.shape[-1])", "math.sqrt(keys.shape[2])")),
    ],
)

EXERCISES: list[Exercise] = [CROSS, HARD, CACHE]
