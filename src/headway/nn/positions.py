"""Position encodings: how a model that sees a set of tokens learns their order.

An encoding has three hooks and overrides one: ``embed`` adds to the embeddings, ``turn`` gives a function of query and
key heads, ``bias`` adds to the attention scores. ``positions`` are whole numbers, (T,) or (B, T). One encoding serves
all blocks of a stack, and each hook is called once in a forward pass.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.context import identity


class Position(nn.Module):
    """No position at all: the base of the others, and an encoding of its own."""

    length: int | None = None  # positions that it has at most; None: any number

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """x is (B, T, D)."""
        return x

    def refuse_beyond(self, length: int) -> None:
        """An encoding that ends somewhere refuses sequences that are longer."""

    def rotate(self, positions: Tensor) -> Callable[[Tensor], Tensor]:
        """The function takes and gives heads (B, H, T, K)."""
        return identity

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """(H, T, S), or (B, H, T, S) if positions differ by row."""
        return None


class Sinusoidal(Position):
    """sin(p / base^(2i/D)) at even places, cos at odd ones (Vaswani et al. 2017, section 3.5); any length."""

    def __init__(self, width: int, base: float = 10_000.0, halves: bool = False):
        """In ``halves``, all sines stand before all cosines."""
        super().__init__()
        self.width, self.base, self.halves = width, base, halves

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        angle = angles(positions, self.width, self.base)
        pair = [angle.sin(), angle.cos()]
        waves = torch.cat(pair, dim=-1) if self.halves else torch.stack(pair, dim=-1).flatten(-2)
        return x + waves[..., : self.width].to(x.dtype)


class Learned(Position):
    """A vector for each position up to ``length`` (Gehring et al. 2017, https://arxiv.org/abs/1705.03122)."""

    def __init__(self, width: int, length: int, start: float = 1.0):
        """``start`` is the size of the vectors at first: by default that of the embeddings that they are added to."""
        super().__init__()
        self.length: int = length
        self.table = nn.Embedding(length, width)
        nn.init.normal_(self.table.weight, std=start)

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor:
        return resize_rows(theirs, ours, 0)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table(positions)

    def refuse_beyond(self, length: int) -> None:
        if length > self.length:
            raise Problem(
                f"a sequence of {length} tokens is too long: learned positions end at {self.length}. "
                "Give a larger length, or positions without an end (sinusoidal, relative, t5, rotary, alibi)"
            )


def resize_rows(theirs: Tensor, ours: Tensor, first: int) -> Tensor:
    """A table with the rows of another size: cut, or with our own rows where theirs end."""
    if len(theirs) > len(ours):
        return theirs[first : first + len(ours)]
    rows = ours.clone()
    rows[first : first + len(theirs)] = theirs
    return rows


class Relative(Position):
    """A learned number for each head and distance: the bias is a Toeplitz matrix, m[j - i] in row i and column j.

    Distances from -(length - 1) to length - 1 have numbers of their own, larger ones that of the nearest
    (Shaw et al. 2018, https://arxiv.org/abs/1803.02155, clip likewise).
    """

    def __init__(self, heads: int, length: int):
        super().__init__()
        self.reach = length - 1
        self.table = nn.Embedding(2 * self.reach + 1, heads)
        nn.init.zeros_(self.table.weight)

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor:
        """Rows are distances, and 0 is in the middle."""
        return resize_rows(theirs, ours, abs(len(theirs) - len(ours)) // 2)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = distances(queries, keys).clamp(-self.reach, self.reach)
        return self.table(distance + self.reach).movedim(-1, -3)


class T5(Position):
    """A learned number for each head and bucket of distances, wider buckets further off.

    Half of the buckets are for keys before the query and half for those after it; in each half, half are for single
    distances, and half grow by a constant factor up to ``furthest`` (Raffel et al. 2020, https://arxiv.org/abs/1910.10683).
    """

    def __init__(self, heads: int, buckets: int = 32, furthest: int = 128, both: bool = True):
        """If not ``both``, all buckets are for keys before the query, as T5's decoder has it."""
        super().__init__()
        if buckets < 4 or buckets % 4 or furthest <= buckets // (4 if both else 2):
            raise Problem(
                f"buckets must be a multiple of 4, and furthest above the single distances: {buckets}, {furthest}"
            )
        self.buckets, self.furthest, self.both = buckets, furthest, both
        self.table = nn.Embedding(buckets, heads)
        nn.init.zeros_(self.table.weight)

    def bucket(self, distance: Tensor) -> Tensor:
        side = self.buckets // 2 if self.both else self.buckets
        exact = side // 2
        size = distance.abs() if self.both else (-distance).clamp(min=0)
        growth = (size.clamp(min=1).float() / exact).log() / math.log(self.furthest / exact)
        far = (exact + (growth * (side - exact)).long()).clamp(max=side - 1)
        return torch.where(size < exact, size, far) + side * (self.both & (distance > 0))

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.table(self.bucket(distances(queries, keys))).movedim(-1, -3)


class Rotary(Position):
    """Turns each pair of a head's numbers by an angle that grows with the position, so that the product of a query and
    a key depends on their distance alone (Su et al. 2021, https://arxiv.org/abs/2104.09864).

    Number i is paired with number i + K/2.
    """

    def __init__(self, head_width: int, base: float = 10_000.0):
        super().__init__()
        if head_width % 2:
            raise Problem(f"rotary positions turn pairs: a head width of {head_width} must be even")
        self.head_width, self.base = head_width, base

    def rotate(self, positions: Tensor) -> Callable[[Tensor], Tensor]:
        angle = angles(positions, self.head_width, self.base).unsqueeze(-3)  # (1, T, K/2) or (B, 1, T, K/2)
        cosine, sine = torch.cat([angle.cos()] * 2, dim=-1), torch.cat([-angle.sin(), angle.sin()], dim=-1)

        def rotate(heads: Tensor) -> Tensor:
            return (heads * cosine + heads.roll(self.head_width // 2, dims=-1) * sine).to(heads.dtype)

        return rotate


class Alibi(Position):
    """A penalty on distance, with a slope for each head and nothing to learn (Press et al. 2022,
    https://arxiv.org/abs/2108.12409): slopes 2^(-8h/H) for h = 1 ... H."""

    def __init__(self, heads: int):
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        return -self.slopes[:, None, None] * distances(queries, keys).abs().unsqueeze(-3)


def alibi_slopes(heads: int) -> list[float]:
    """For a number of heads that is no power of two: those of the power below, then every other of the one above."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-4 * head / power) for head in range(1, 2 * power + 1, 2)]
    return slopes + between[: heads - power]


def angles(positions: Tensor, width: int, base: float) -> Tensor:
    """(..., T, width / 2): position times base^(-2i / width)."""
    frequency = base ** (-torch.arange(0, width, 2, device=positions.device) / width)
    return positions[..., None] * frequency


def distances(queries: Tensor, keys: Tensor) -> Tensor:
    """(..., T, S): how far each key stands behind (+) or before (-) each query."""
    return keys[..., None, :] - queries[..., :, None]


POSITIONS = {
    "none": Position,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "relative": Relative,
    "t5": T5,
    "rotary": Rotary,
    "alibi": Alibi,
}
