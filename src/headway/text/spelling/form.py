"""A form of writing integers below a million: its words, and the rule that joins them.

A rule takes the largest word that fits into a number, and spells what is before and after it in the same way: 305 is
three times "hundred" and "five". To read, the values of the words are added up, whatever joins them; spelling the
result again tells whether the text was right.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

LIMIT = 1_000_000
POWERS = tuple(10**power for power in range(1, 6))
Words = Mapping[int, str]  # from small to large


@dataclass(frozen=True)
class Form:
    rule: Callable[[int], str]
    words: Words
    inflected: Mapping[str, int] = field(default_factory=dict)  # other forms of the words, as they are read

    def __call__(self, number: int) -> str:
        return self.rule(checked(number))

    def read(self, text: str) -> int | None:
        """The number that a text spells, or None."""
        number = self.sum_of_words(text)
        return number if number < LIMIT and self.rule(number) == text else None

    def sum_of_words(self, text: str) -> int:
        """A power of ten, such as "hundred", multiplies what is before it, unless its multiples are words."""
        total = 0
        for word in self.pattern.findall(text):
            value = self.values[word]
            multiplied = total % value if value in POWERS and 2 * value not in self.words else 0
            total += multiplied * (value - 1) if multiplied else value
        return total

    @cached_property
    def values(self) -> dict[str, int]:
        return {word: value for value, word in self.words.items()} | dict(self.inflected)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(sorted(self.values, key=len, reverse=True)))  # "sixty" is not "six"


class Digits(Form):
    def read(self, text: str) -> int | None:
        """Stricter than `int`: no signs, blanks, underscores or digits of other scripts."""
        return int(text) if re.fullmatch("0|[1-9][0-9]{0,5}", text) else None


def checked(number: int) -> int:
    if not 0 <= number < LIMIT:
        raise ValueError(f"{number} is not a number from 0 to {LIMIT - 1}")
    return number


def table(words: str, *values: range | int) -> dict[int, str]:
    """From values to their words, which are separated by blanks."""
    every = [value for each in values for value in (each if isinstance(each, range) else [each])]
    return dict(zip(every, words.split(), strict=True))


def parts(words: Words, number: int) -> tuple[int, int, int]:
    """The largest word that fits into a number: how often, its value, and the rest; 305 is 3, 100 and 5."""
    values = tuple(words)
    base = values[bisect_right(values, number) - 1]
    count, rest = divmod(number, base or 1)
    return count, base, rest


def then(joint: str, rule: Callable[[int], str], rest: int) -> str:
    """What comes after a word, if anything does."""
    return joint + rule(rest) if rest else ""
