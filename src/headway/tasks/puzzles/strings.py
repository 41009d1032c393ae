"""Puzzles made on the spot: strings of bits, and strings that do or do not contain a pattern."""

from collections import Counter
from math import comb
from typing import NamedTuple

import numpy as np

from headway.config.errors import BadSetting
from headway.data.grammar import Random


def length_range(shortest: int | None, longest: int) -> range:
    """The lengths that strings may have; with no shortest one, all are of the same length."""
    if shortest is not None and shortest > longest:
        raise BadSetting("data.shortest", f"{shortest} is more than the longest, data.length={longest}")
    return range(longest if shortest is None else shortest, longest + 1)


class Shape(NamedTuple):
    """How long a string of bits is, and how many ones it has."""

    length: int
    ones: int

    @property
    def for_a_set(self) -> int:
        """How many of such strings a held-out set may take: four sets leave at least half of them for training."""
        return comb(self.length, self.ones) // 8


def random_shapes(count: int, lengths: range, random: Random) -> list[Shape]:
    """The shapes of random strings: the number of ones concentrates around half of the length."""
    drawn = random.integers(lengths.start, lengths.stop, count)
    return [Shape(int(length), int(random.binomial(length, 0.5))) for length in drawn]


def uniform_shapes(count: int, lengths: range, random: Random) -> list[Shape]:
    """Every number of ones is as likely as any other."""
    drawn = random.integers(lengths.start, lengths.stop, count)
    return [Shape(int(length), int(random.integers(length + 1))) for length in drawn]


def bits(shape: Shape, random: Random) -> str:
    """One of the strings of this shape, each as likely as any other."""
    places = np.zeros(shape.length, dtype=np.uint8)
    places[random.permutation(shape.length)[: shape.ones]] = 1
    return (places + ord("0")).tobytes().decode()


def held_out_bits(shapes: list[Shape], taken: set[str], random: Random) -> list[str]:
    """A string for each shape, none of them ``taken`` before; they are taken now.

    Where few strings have a shape, they repeat; where too few have it to keep any apart, they are taken anyway.
    """
    pools: dict[Shape, list[str]] = {}
    for shape, wanted in Counter(shapes).items():
        room = min(wanted, max(1, shape.for_a_set))
        pool: set[str] = set()
        while len(pool) < room:
            text = bits(shape, random)
            if not shape.for_a_set or text not in taken:
                pool.add(text)
        pools[shape] = sorted(pool)
        taken |= pool
    return [pools[shape][random.integers(len(pools[shape]))] for shape in shapes]


def remaining_bits(shapes: list[Shape], taken: set[str], random: Random) -> list[str]:
    """A string for each shape, none of them ``taken`` unless too few have its shape; they may repeat."""
    texts = []
    for shape in shapes:
        text = bits(shape, random)
        while text in taken and shape.for_a_set:
            text = bits(shape, random)
        texts.append(text)
    return texts


def with_pattern(pattern: str, letters: str, length: int, random: Random) -> str:
    """Half of them have the pattern where it is put and nowhere else, in the others chance may add more."""
    text = random_text(letters, length, random)
    if random.random() < 0.5:
        text = broken(text, pattern, letters, random)
    return planted(text, pattern, random)


def without_pattern(pattern: str, letters: str, length: int, random: Random) -> str:
    """Half of them are near misses: the pattern was put in, and then one of its letters changed."""
    text = random_text(letters, length, random)
    if random.random() < 0.5:
        text = planted(text, pattern, random)
    return broken(text, pattern, letters, random)


def count_without(pattern: str, letters: str, length: int) -> int:
    """How many strings of this length do not contain the pattern.

    They are counted by how much of the pattern their end has matched so far: a letter more leads to the longest start
    of the pattern that is an end of what was matched and the letter.
    """
    starts = [pattern[:size] for size in range(len(pattern) + 1)]
    ending: Counter[str] = Counter({"": 1})
    for _ in range(length):
        longer: Counter[str] = Counter()
        for matched, count in ending.items():
            for letter in letters:
                longer[max((start for start in starts if (matched + letter).endswith(start)), key=len)] += count
        del longer[pattern]
        ending = longer
    return ending.total()


def random_text(letters: str, length: int, random: Random) -> str:
    return "".join(letters[place] for place in random.integers(len(letters), size=length))


def planted(text: str, pattern: str, random: Random) -> str:
    start = random.integers(len(text) - len(pattern) + 1)
    return text[:start] + pattern + text[start + len(pattern) :]


def broken(text: str, pattern: str, letters: str, random: Random) -> str:
    """Change a letter in each occurrence of the pattern until there is none."""
    while (start := text.find(pattern)) >= 0:
        place = start + int(random.integers(len(pattern)))
        others = letters.replace(text[place], "")
        text = text[:place] + others[random.integers(len(others))] + text[place + 1 :]
    return text
