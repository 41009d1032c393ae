"""Random strings for puzzles: bit strings, and strings with and without a pattern."""

from collections import Counter
from math import comb
from typing import NamedTuple

import numpy as np

from headway.config.errors import BadSetting
from headway.data.files import Progress, silent, tell_making
from headway.data.grammar import Random


def length_range(shortest: int | None, longest: int) -> range:
    """The possible lengths; without a shortest one, all strings have the same length."""
    if shortest is not None and shortest > longest:
        raise BadSetting("data.shortest", f"{shortest} is above data.length={longest}")
    return range(longest if shortest is None else shortest, longest + 1)


class Shape(NamedTuple):
    """Length and number of ones of a bit string."""

    length: int
    ones: int

    @property
    def per_set(self) -> int:
        """Maximum such strings in a held-out set, so that four sets leave at least half of them for training."""
        return comb(self.length, self.ones) // 8


def random_shapes(count: int, lengths: range, random: Random) -> list[Shape]:
    """Shapes of random strings: the number of ones concentrates around half the length."""
    drawn = random.integers(lengths.start, lengths.stop, count)
    return [Shape(int(length), int(random.binomial(length, 0.5))) for length in drawn]


def uniform_shapes(count: int, lengths: range, random: Random) -> list[Shape]:
    """Every number of ones is equally likely."""
    drawn = random.integers(lengths.start, lengths.stop, count)
    return [Shape(int(length), int(random.integers(length + 1))) for length in drawn]


def bits(shape: Shape, random: Random) -> str:
    """A uniformly random string of this shape."""
    digits = np.zeros(shape.length, dtype=np.uint8)
    digits[random.permutation(shape.length)[: shape.ones]] = 1
    return (digits + ord("0")).tobytes().decode()


def held_out_bits(shapes: list[Shape], taken: set[str], random: Random) -> list[str]:
    """A string of each shape that is not yet ``taken``, and is from now on.

    If few strings have a shape, they repeat; if too few to hold any out, taken ones are used.
    """
    pools: dict[Shape, list[str]] = {}
    for shape, count in Counter(shapes).items():
        size = min(count, max(1, shape.per_set))
        pool: set[str] = set()
        while len(pool) < size:
            text = bits(shape, random)
            if not shape.per_set or text not in taken:
                pool.add(text)
        pools[shape] = sorted(pool)
        taken |= pool
    return [pools[shape][random.integers(len(pools[shape]))] for shape in shapes]


def remaining_bits(shapes: list[Shape], taken: set[str], random: Random, progress: Progress = silent) -> list[str]:
    """A string of each shape that is not ``taken``, unless too few have this shape; they may repeat."""
    texts: list[str] = []
    for shape in shapes:
        tell_making(progress, len(texts), len(shapes))
        text = bits(shape, random)
        while text in taken and shape.per_set:
            text = bits(shape, random)
        texts.append(text)
    return texts


def with_pattern(pattern: str, letters: str, length: int, random: Random) -> str:
    """Half of them have exactly one occurrence, the others may have more by chance."""
    text = random_text(letters, length, random)
    if random.random() < 0.5:
        text = break_all(text, pattern, letters, random)
    return plant(text, pattern, random)


def without_pattern(pattern: str, letters: str, length: int, random: Random) -> str:
    """Half of them are near misses: an occurrence with one letter changed."""
    text = random_text(letters, length, random)
    if random.random() < 0.5:
        text = plant(text, pattern, random)
    return break_all(text, pattern, letters, random)


def count_without(pattern: str, letters: str, length: int) -> int:
    """The number of strings of this length without the pattern.

    They are counted by the longest prefix of the pattern that is a suffix of the string, as in the Knuth-Morris-Pratt
    automaton.
    """
    prefixes = [pattern[:size] for size in range(len(pattern) + 1)]
    ending: Counter[str] = Counter({"": 1})
    for _ in range(length):
        longer: Counter[str] = Counter()
        for matched, count in ending.items():
            for letter in letters:
                longer[max((each for each in prefixes if (matched + letter).endswith(each)), key=len)] += count
        del longer[pattern]
        ending = longer
    return ending.total()


def random_text(letters: str, length: int, random: Random) -> str:
    return "".join(letters[index] for index in random.integers(len(letters), size=length))


def plant(text: str, pattern: str, random: Random) -> str:
    start = random.integers(len(text) - len(pattern) + 1)
    return text[:start] + pattern + text[start + len(pattern) :]


def break_all(text: str, pattern: str, letters: str, random: Random) -> str:
    """Change a letter in each occurrence of the pattern until there is none."""
    while (start := text.find(pattern)) >= 0:
        index = start + int(random.integers(len(pattern)))
        others = letters.replace(text[index], "")
        text = text[:index] + others[random.integers(len(others))] + text[index + 1 :]
    return text
