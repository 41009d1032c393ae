"""Position encodings, each against its formula worked out one number at a time."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from headway.models import Stack
from headway.nn import T5, Alibi, Learned, Position, Relative, Rotary, Sinusoidal
from headway.nn.positions import alibi_slopes

POSITIONS = torch.arange(12)


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoidal(width: int) -> None:
    added = Sinusoidal(width).embed(torch.zeros(1, 12, width), POSITIONS)[0]
    for index, number in product(range(12), range(width)):
        angle = index / 10_000 ** ((number - number % 2) / width)
        expected = math.cos(angle) if number % 2 else math.sin(angle)
        assert added[index, number].item() == pytest.approx(expected, abs=1e-5)


def test_sinusoidal_has_no_end() -> None:
    assert Sinusoidal(8).embed(torch.zeros(1, 1, 8), torch.tensor([1_000_000])).isfinite().all()


def test_sinusoids_in_halves_are_those_of_marian() -> None:
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    table = MarianSinusoidalPositionalEmbedding(12, 8)
    ours = Sinusoidal(8, halves=True).embed(torch.zeros(1, 12, 8), POSITIONS)[0]
    torch.testing.assert_close(ours, table.create_weight() if hasattr(table, "create_weight") else table.weight)


def test_learned_adds_its_rows_and_says_when_a_sequence_is_too_long() -> None:
    position = Learned(8, length=12)
    torch.testing.assert_close(position.embed(torch.zeros(2, 12, 8), POSITIONS)[1], position.table.weight)
    with pytest.raises(ValueError, match="13 tokens is too long: learned positions end at 12"):
        Stack([], position)(torch.zeros(1, 13, 8))


def test_relative_is_a_toeplitz_matrix_for_each_head() -> None:
    position = Relative(heads=2, length=12)
    torch.nn.init.normal_(position.table.weight)
    bias = position.bias(POSITIONS, POSITIONS)
    assert bias.shape == (2, 12, 12)
    for head, query, key in product(range(2), range(12), range(12)):
        assert bias[head, query, key] == position.table.weight[key - query + 11, head]


def test_relative_clips_past_its_length() -> None:
    position = Relative(heads=2, length=4)
    torch.nn.init.normal_(position.table.weight)
    bias = position.bias(POSITIONS, POSITIONS)
    for query, key in product(range(12), range(12)):
        nearest = max(-3, min(3, key - query))
        torch.testing.assert_close(bias[:, query, key], position.table.weight[nearest + 3])


def test_t5_buckets() -> None:
    """By the rule in words: 8 single distances a side, then 8 that grow evenly in the logarithm, up to 128."""

    def by_hand(distance: int) -> int:
        size, side = abs(distance), 16 if distance > 0 else 0
        if size < 8:
            return side + size
        return side + min(15, 8 + int(math.log(size / 8) / math.log(128 / 8) * 8 + 1e-9))

    distances = torch.arange(-300, 301)
    # At powers of 2 the logarithm is a whole number, which float32 may miss from below: torch decides those.
    clear = [d for d in range(-300, 301) if abs(d) < 8 or abs(math.log2(abs(d) / 8) * 2 % 1 - 0.5) < 0.499]
    buckets = T5(heads=1).bucket(distances)
    assert [buckets[d + 300].item() for d in clear] == [by_hand(d) for d in clear]
    assert buckets.min() == 0
    assert buckets.max() == 31


@pytest.mark.parametrize("both", [True, False])
def test_t5_has_the_buckets_of_transformers(both: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    distances = torch.arange(-300, 301)
    for buckets, furthest in ((32, 128), (8, 20)):
        theirs = T5Attention._relative_position_bucket(distances, both, buckets, furthest)
        assert torch.equal(T5(1, buckets, furthest, both).bucket(distances), theirs)


def test_t5_looks_its_buckets_up() -> None:
    position = T5(heads=3, buckets=8, furthest=6)
    torch.nn.init.normal_(position.table.weight)
    bias = position.bias(POSITIONS, POSITIONS)
    for query, key in product(range(12), range(12)):
        bucket = position.bucket(torch.tensor(key - query))
        torch.testing.assert_close(bias[:, query, key], position.table.weight[bucket])


def test_rotary_multiplies_pairs_as_complex_numbers() -> None:
    heads = torch.randn(2, 3, 12, 8, dtype=torch.float64)
    rotated = Rotary(8).rotate(POSITIONS)(heads)
    for index, pair in product(range(12), range(4)):
        number = torch.complex(heads[:, :, index, pair], heads[:, :, index, pair + 4])
        expected = number * complex(math.cos(a := index / 10_000 ** (2 * pair / 8)), math.sin(a))
        torch.testing.assert_close(rotated[:, :, index, pair], expected.real, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(rotated[:, :, index, pair + 4], expected.imag, atol=1e-6, rtol=1e-6)


def test_rotary_products_depend_on_the_distance_alone() -> None:
    query, key = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)

    def score(query_position: int, key_position: int) -> Tensor:
        position = Rotary(16)
        rotated = (
            position.rotate(torch.tensor([query_position]))(query),
            position.rotate(torch.tensor([key_position]))(key),
        )
        return (rotated[0] * rotated[1]).sum()

    torch.testing.assert_close(score(3, 7), score(103, 107), atol=1e-4, rtol=1e-4)
    assert (score(3, 7) - score(3, 8)).abs() > 1e-3


def test_rotary_refuses_an_odd_head_width() -> None:
    with pytest.raises(ValueError, match="head width of 7 must be even"):
        Rotary(7)


def test_alibi() -> None:
    bias = Alibi(heads=4).bias(POSITIONS, POSITIONS)
    for head, query, key in product(range(4), range(12), range(12)):
        assert bias[head, query, key].item() == pytest.approx(-(2.0 ** (-2 * (head + 1))) * abs(key - query))


def test_alibi_slopes_of_the_paper() -> None:
    assert alibi_slopes(8) == [2**-h for h in range(1, 9)]
    assert alibi_slopes(3) == [2**-4, 2**-8, 2**-2]  # those of two heads, then the first of four


@pytest.mark.parametrize("position", [Relative(2, 5), T5(2), Alibi(2)])
def test_a_bias_can_differ_by_row(position: Position) -> None:
    positions = torch.stack([POSITIONS, POSITIONS.flip(0)])
    bias = position.bias(positions, positions)
    assert bias is not None
    torch.testing.assert_close(bias[0], position.bias(POSITIONS, POSITIONS))
    torch.testing.assert_close(bias[1], position.bias(positions[1], positions[1]))


def test_turns_can_differ_by_row() -> None:
    heads, positions = torch.randn(2, 3, 12, 8), torch.stack([POSITIONS, POSITIONS + 5])
    rotated = Rotary(8).rotate(positions)(heads)
    torch.testing.assert_close(rotated[1], Rotary(8).rotate(positions[1])(heads)[1])


def test_without_positions_order_does_not_matter() -> None:
    from headway.nn import Block, SelfAttention

    x = torch.randn(1, 6, 8)
    shuffled = x[:, torch.tensor([3, 1, 5, 0, 2, 4])]

    def last_mean(position: Position, x: Tensor) -> Tensor:
        torch.manual_seed(1)
        return Stack([Block(mixer=SelfAttention(8, 2))], position)(x).mean(dim=1)

    torch.testing.assert_close(last_mean(Position(), x), last_mean(Position(), shuffled))
    assert (last_mean(Sinusoidal(8), x) - last_mean(Sinusoidal(8), shuffled)).abs().max() > 1e-4
