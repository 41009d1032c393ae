"""Positions: how attention learns about the order of tokens."""

from typing import Any

import torch

from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.learn.tracks.attention import numbers
from headway.nn import positions

of = Mistake.of
POSITIONS = "headway.nn.positions"
PLACES = torch.arange(5)


def learned(length: int) -> Any:
    return positions.Learned(6, length).double()


def relative(inside: bool = False, length: int = 4) -> Any:
    module = positions.Relative(2, length, head_width=9, inside=inside).double()
    with torch.no_grad():
        module.table.weight.copy_(numbers(*module.table.weight.shape))
    return module


def shifted_rows_agree(function: Any, args: Args) -> bool:
    """A Toeplitz matrix: the same along each diagonal."""
    matrix = function(*args)
    return torch.equal(matrix[:, 1:, 1:], matrix[:, :-1, :-1])


SINUSOIDAL = FillIn(
    id="pos.sinusoidal",
    title="sinusoidal positions",
    task="""
    Add to each embedding x (B, T, D) the waves of its position p: sin(p / base^(2i/D)) at the even dimension 2i,
    and cos of the same angle at the odd dimension 2i + 1. With self.halves, all sines come first, then all cosines.
    self.width is D, which may be odd; angles(positions, self.width, self.base) gives the angles (T, about D/2).
    """,
    hints=(
        "Each angle gives two dimensions. Do they stand beside each other, or half of the width apart?",
        "Stack sine and cosine in a new last dimension and flatten: they alternate. Cut off what is too much, and add.",
    ),
    module=POSITIONS,
    cases=lambda: {
        "an even width": (positions.Sinusoidal(6), numbers(2, 5, 6), PLACES),
        "an odd width": (positions.Sinusoidal(7), numbers(1, 5, 7), PLACES),
        "halves": (positions.Sinusoidal(6, halves=True), numbers(2, 5, 6), PLACES),
        "another base": (positions.Sinusoidal(6, base=100.0), numbers(2, 5, 6), PLACES + 3),
    },
    mistakes=[
        of(
            "Sines and cosines are swapped: sines stand at even dimensions.",
            ("[angle.sin(), angle.cos()]", "[angle.cos(), angle.sin()]"),
        ),
        of("The waves are returned, but not added to the embeddings.", ("return x + waves", "return 0 * x + waves")),
        of(
            "All sines come first; they should alternate with the cosines, unless there are halves.",
            ("if self.halves else", "if True else"),
        ),
        of(
            "Halves are not separated: with self.halves, all sines come first.",
            ("if self.halves else", "if False else"),
        ),
        of("There are only sines.", ("angle.cos()]", "angle.sin()]")),
        of("The embeddings are multiplied by the waves instead of added to them.", ("x + waves", "x * waves")),
    ],
)
LEARNED = FillIn(
    id="pos.learned",
    title="learned positions",
    task="""
    Add the learned vector of its position to each embedding: self.table is an nn.Embedding with a row for each
    position, x is (B, T, D), and positions (T,) or (B, T) are integers that need not begin at 0.
    """,
    hints=(
        "Is it the token or its position that is looked up?",
        "Call the table with the positions; broadcasting adds the batch.",
    ),
    module=POSITIONS,
    cases=lambda: {
        "from 0 on": (learned(9), numbers(2, 5, 6), PLACES),
        "from 3 on": (learned(9), numbers(2, 5, 6), PLACES + 3),
        "a row of its own each": (learned(9), numbers(2, 2, 6), torch.tensor([[0, 1], [4, 5]])),
    },
    mistakes=[
        of(
            "The position is always counted from 0; use the positions that are given.",
            ("self.table(positions)", "self.table(torch.arange(x.shape[1]))"),
        ),
        of("The vectors are returned, but not added.", ("x + self", "0 * x + self")),
        of(
            "Each position gets the vector of the one after it.", ("self.table(positions)", "self.table(positions + 1)")
        ),
    ],
)
TOEPLITZ = FillIn(
    id="pos.toeplitz",
    title="a learned Toeplitz matrix on the scores",
    task="""
    Each head learns a number m for every distance j - i between a key j and a query i: m_0 stands on the diagonal,
    m_1 above it, m_-1 below. Return the biases (H, T, S) that are added to the scores after their division by the
    root of the width; self.scale is 1, or, if m was meant before the division, one over that root.

    distances(queries, keys) gives j - i. Distances beyond self.max_distance count as that. self.table is an
    nn.Embedding with a row for each distance, the most negative one first, and a column for each head.
    """,
    hints=(
        "A table has no row -1. Which row belongs to distance 0?",
        "Clamp the distances on both sides, shift them so that they start at 0, look them up, and "
        "move the heads to the front.",
    ),
    module=POSITIONS,
    cases=lambda: {
        "five positions": (relative(length=6), PLACES, PLACES),
        "distances that are clipped": (relative(length=3), PLACES, PLACES),
        "before the division": (relative(inside=True), PLACES, PLACES),
        "the last two queries": (relative(), PLACES[3:], PLACES),
    },
    properties={"it is the same along each diagonal": shifted_rows_agree},
    mistakes=[
        of(
            "The matrix is transposed: m_1 stands above the diagonal, where the key comes after the query.",
            ("distances(queries, keys)", "-distances(queries, keys)"),
        ),
        of(
            "The farthest distance has a row of its own: distances are clipped one too early.",
            ("clamp(-self.max_distance, self.max_distance)", "clamp(1 - self.max_distance, self.max_distance - 1)"),
        ),
        of("What is meant before the division is not scaled: multiply by self.scale.", ("self.scale * ", "")),
        of(
            "Both sides share their numbers: m_1 and m_-1 are different.",
            ("distances(queries, keys)", "distances(queries, keys).abs()"),
        ),
        of(
            "Distance 0 is the middle row of the table, not the first.",
            ("distance + self.max_distance", "distance % (2 * self.max_distance + 1)"),
        ),
        of("The heads are not moved to the front.", (".movedim(-1, -3)", "")),
    ],
)
ROTARY = FillIn(
    id="pos.rotary",
    title="rotary positions",
    task="""
    Return a function that rotates heads (B, H, T, K): dimension i and i + K/2 are a pair, which turns by the angle that
    belongs to the position: (a cos - b sin, a sin + b cos). angles(positions, K, self.base) gives (T, K/2); K is
    self.head_width. What comes out has the type that went in.
    """,
    hints=(
        "Where does the partner of dimension i stand, and which sign does its sine have?",
        "Rolling by half of the width puts every partner in its place; the sines of the first half are negative.",
    ),
    module=POSITIONS,
    plain="""
    def rotate(self, positions):
        angle = angles(positions, self.head_width, self.base).unsqueeze(-3)
        def rotate(heads):
            first, second = heads.chunk(2, dim=-1)
            one = first * angle.cos() - second * angle.sin()
            two = first * angle.sin() + second * angle.cos()
            return torch.cat([one, two], dim=-1).to(heads.dtype)
        return rotate
    """,
    called_with=lambda: (numbers(2, 3, 5, 8),),
    cases=lambda: {
        "five positions": (positions.Rotary(8), PLACES),
        "from 7 on": (positions.Rotary(8), PLACES + 7),
        "another base": (positions.Rotary(8, base=50.0), PLACES),
    },
    mistakes=[
        of(
            "It rotates in the wrong direction.",
            ("first * angle.cos() - second", "first * angle.cos() + second"),
            ("first * angle.sin() + second", "-first * angle.sin() + second"),
        ),
        of(
            "This is a reflection, not a rotation: one of the two sines is negative.",
            ("angle.cos() - second", "angle.cos() + second"),
        ),
        of(
            "Neighbours are paired; dimension i belongs to i + K/2.",
            ("heads.chunk(2, dim=-1)", "heads[..., ::2], heads[..., 1::2]"),
            ("torch.cat([one, two], dim=-1)", "torch.stack([one, two], dim=-1).flatten(-2)"),
        ),
        of(
            "Sines and cosines are swapped.",
            ("first * angle.cos() - second * angle.sin()", "first * angle.sin() - second * angle.cos()"),
            ("first * angle.sin() + second * angle.cos()", "first * angle.cos() + second * angle.sin()"),
        ),
    ],
)
ALIBI = FillIn(
    id="pos.alibi",
    title="linear biases (ALiBi)",
    task="""
    The scores of head h fall by self.slopes[h] for each step of distance between query and key, on both sides. Return
    the bias (H, T, S); distances(queries, keys) gives key minus query.
    """,
    hints=(
        "Is the bias of a far key positive or negative?",
        "Minus slope times absolute distance, with a dimension for the heads in front.",
    ),
    module=POSITIONS,
    cases=lambda: {
        "two heads": (positions.Alibi(2).double(), PLACES, PLACES),
        "three heads": (positions.Alibi(3).double(), PLACES, PLACES),
        "the last query": (positions.Alibi(4).double(), PLACES[4:], PLACES),
    },
    mistakes=[
        of("Far keys are preferred: the bias is negative.", ("-self.slopes", "self.slopes")),
        of("Later keys get a bonus: the distance is absolute.", (".abs()", "")),
        of(
            "All heads have the first slope.",
            ("self.slopes[:, None, None]", "self.slopes[:1, None, None].expand(len(self.slopes), 1, 1)"),
        ),
    ],
)

EXERCISES: list[Exercise] = [LEARNED, SINUSOIDAL, TOEPLITZ, ALIBI, ROTARY]
