"""Directions of translation: from which language into which. People write ``en-de``, and ``*`` for every language."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np

from headway.config.errors import BadSetting, did_you_mean
from headway.data.languages import Languages

EVERY = "*"


class Direction(NamedTuple):
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class Directions(Languages):
    """Of the rows of parallel texts; ``names`` are as people write them."""

    each: Sequence[Direction] = ()

    @classmethod
    def of(cls, directions: Sequence[Direction], rows: np.ndarray) -> "Directions":
        """``rows`` (N,) are the number of the direction of each row."""
        return cls([str(direction) for direction in directions], rows, directions)

    def by_direction(self) -> dict[Direction, np.ndarray]:
        """The rows of each direction that has any."""
        rows = self.by_name()
        return {direction: rows[str(direction)] for direction in self.each if str(direction) in rows}


def among(languages: Sequence[str]) -> list[Direction]:
    """Every direction between two of them."""
    return [Direction(*pair) for pair in permutations(languages, 2)]


def directions_in(text: str, languages: Sequence[str], key: str) -> list[Direction]:
    """``en-de,de-en``; ``en-*``: from English into every language; ``en``: from and into English."""
    patterns = [pattern for entry in text.split(",") for pattern in patterns_of(entry.strip(), languages, key)]
    return [each for each in among(languages) if any(matches(each, source, target) for source, target in patterns)]


def patterns_of(entry: str, languages: Sequence[str], key: str) -> list[tuple[str, str]]:
    if entry in languages:
        return [(entry, EVERY), (EVERY, entry)]
    ends = [*languages, EVERY]
    known = {str(Direction(source, target)): (source, target) for source in ends for target in ends}
    if entry not in known:
        named, near = ", ".join(languages[:10]), did_you_mean(entry, [*languages, *known])
        raise BadSetting(key, f"{entry!r} is not a direction between two of {named}; {near}")
    if entry in {str(Direction(name, name)) for name in languages}:
        raise BadSetting(key, f"{entry!r} is from a language into itself")
    return [known[entry]]


def matches(direction: Direction, source: str, target: str) -> bool:
    return source in (EVERY, direction.source) and target in (EVERY, direction.target)
