"""Position encodings: how attention, which sees a set of tokens, learns about their order.

An encoding has three hooks and overrides one: ``embed`` adds to the embeddings, ``rotate`` returns a function of query
and key heads, ``bias`` adds to the attention scores. ``positions`` are integers, (T,) or (B, T). All blocks of a stack
share one encoding, and each hook is called once per forward pass.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.context import identity
from headway.nn.cutting import Cut


class Position(nn.Module):
    """No position encoding; also the base class of the others."""

    length: int | None = None  # maximum sequence length; None: unlimited

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """x is (B, T, D)."""
        return x

    def refuse_beyond(self, length: int) -> None:
        """Raise an error if a sequence is too long for this encoding."""

    def rotate(self, positions: Tensor) -> Callable[[Tensor], Tensor]:
        """A function from heads (B, H, T, K) to heads."""
        return identity

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """(H, T, S), or (B, H, T, S) if positions differ between rows."""
        return None


class Sinusoidal(Position):
    """sin(p / base^(2i/D)) at even dimensions, cos at odd ones (Vaswani et al. 2017, section 3.5); any length."""

    def __init__(self, width: int, base: float = 10_000.0, halves: bool = False):
        """With ``halves``, all sines come first, then all cosines."""
        super().__init__()
        self.width, self.base, self.halves = width, base, halves

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        # learn: begin pos.sinusoidal
        angle = angles(positions, self.width, self.base)
        pair = [angle.sin(), angle.cos()]
        waves = torch.cat(pair, dim=-1) if self.halves else torch.stack(pair, dim=-1).flatten(-2)
        return x + waves[..., : self.width].to(x.dtype)
        # learn: end


class Learned(Position):
    """A vector for each position up to ``length`` (Gehring et al. 2017, https://arxiv.org/abs/1705.03122)."""

    def __init__(self, width: int, length: int, start: float = 1.0):
        """``start`` is the initial standard deviation of the vectors; 1, as for the embeddings."""
        super().__init__()
        self.length: int = length
        self.table = nn.Embedding(length, width)
        nn.init.normal_(self.table.weight, std=start)

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor:
        return resize_rows(theirs, ours, 0)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        # learn: begin pos.learned
        return x + self.table(positions)
        # learn: end

    def refuse_beyond(self, length: int) -> None:
        if length > self.length:
            raise Problem(
                f"a sequence of {length} tokens is too long: learned positions end at {self.length}. "
                "Set a larger length, or use positions without a limit (sinusoidal, relative, t5, rotary, alibi)"
            )


def resize_rows(theirs: Tensor, ours: Tensor, first: int) -> Tensor:
    """A table of our size with their rows: cut, or filled up with our own rows."""
    if len(theirs) > len(ours):
        return theirs[first : first + len(ours)]
    rows = ours.clone()
    rows[first : first + len(theirs)] = theirs
    return rows


class Relative(Position):
    """A learned bias for each head and distance: a Toeplitz matrix, m[j - i] in row i and column j.

    Distances are clipped to -(length - 1) ... length - 1 (as in Shaw et al. 2018, https://arxiv.org/abs/1803.02155).
    The bias is added after the division by sqrt(d); with ``inside``, before it: (q k + m) / sqrt(d).
    """

    def __init__(self, heads: int, length: int, head_width: int = 1, inside: bool = False):
        super().__init__()
        self.max_distance = length - 1
        self.scale = head_width**-0.5 if inside else 1.0
        self.table = nn.Embedding(2 * self.max_distance + 1, heads)
        nn.init.zeros_(self.table.weight)
        self.cut_tensors = {"table.weight": Cut(1, (heads,))}

    def resize(self, theirs: Tensor, ours: Tensor) -> Tensor:
        """Rows are distances, with 0 in the middle."""
        return resize_rows(theirs, ours, abs(len(theirs) - len(ours)) // 2)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        # learn: begin pos.toeplitz
        distance = distances(queries, keys).clamp(-self.max_distance, self.max_distance)
        return self.scale * self.table(distance + self.max_distance).movedim(-1, -3)
        # learn: end


class T5(Position):
    """A learned bias for each head and bucket of distances; buckets get wider with distance.

    Half of the buckets are for keys before the query and half for keys after it. In each half, half of the buckets hold
    a single distance, and the others grow logarithmically up to ``furthest`` (Raffel et al. 2020,
    https://arxiv.org/abs/1910.10683).
    """

    def __init__(self, heads: int, buckets: int = 32, furthest: int = 128, both: bool = True):
        """With ``both=False``, all buckets are for keys before the query, as in T5's decoder."""
        super().__init__()
        if buckets < 4 or buckets % 4 or furthest <= buckets // (4 if both else 2):
            raise Problem(
                f"buckets must be a multiple of 4, and furthest above the single distances: {buckets}, {furthest}"
            )
        self.buckets, self.furthest, self.both = buckets, furthest, both
        self.table = nn.Embedding(buckets, heads)
        nn.init.zeros_(self.table.weight)
        self.cut_tensors = {"table.weight": Cut(1, (heads,))}

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
    """Rotates each pair of a head's dimensions by an angle proportional to the position, so that the product of a query
    and a key depends only on their distance (Su et al. 2021, https://arxiv.org/abs/2104.09864).

    Dimension i is paired with dimension i + K/2.
    """

    def __init__(self, head_width: int, base: float = 10_000.0):
        super().__init__()
        if head_width % 2:
            raise Problem(f"rotary positions rotate pairs of dimensions: a head width of {head_width} must be even")
        self.head_width, self.base = head_width, base

    def rotate(self, positions: Tensor) -> Callable[[Tensor], Tensor]:
        # learn: begin pos.rotary
        angle = angles(positions, self.head_width, self.base).unsqueeze(-3)  # (1, T, K/2) or (B, 1, T, K/2)
        cosine, sine = torch.cat([angle.cos()] * 2, dim=-1), torch.cat([-angle.sin(), angle.sin()], dim=-1)

        def rotate(heads: Tensor) -> Tensor:
            return (heads * cosine + heads.roll(self.head_width // 2, dims=-1) * sine).to(heads.dtype)

        return rotate
        # learn: end


class Alibi(Position):
    """A linear penalty on distance, with a fixed slope for each head: 2^(-8h/H) for h = 1 ... H (Press et al. 2022,
    https://arxiv.org/abs/2108.12409)."""

    def __init__(self, heads: int):
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)
        self.cut_tensors = {"slopes": Cut(0, (heads,))}

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        # learn: begin pos.alibi
        return -self.slopes[:, None, None] * distances(queries, keys).abs().unsqueeze(-3)
        # learn: end


def alibi_slopes(heads: int) -> list[float]:
    """If heads is not a power of two: the slopes of the next lower power, then every other slope of the next higher."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-4 * head / power) for head in range(1, 2 * power + 1, 2)]
    return slopes + between[: heads - power]


def angles(positions: Tensor, width: int, base: float) -> Tensor:
    """(..., T, width / 2): position times base^(-2i / width)."""
    frequency = base ** (-torch.arange(0, width, 2, device=positions.device) / width)
    return positions[..., None] * frequency


def distances(queries: Tensor, keys: Tensor) -> Tensor:
    """(..., T, S): key position minus query position."""
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
