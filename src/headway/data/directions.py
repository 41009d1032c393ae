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
    """``en-de,de-en``, or ``en-*,*-en``: from English into every language, and back."""
    known = {
        str(Direction(source, target)): Direction(source, target)
        for source in (*languages, EVERY)
        for target in (*languages, EVERY)
    }
    chosen: dict[Direction, None] = {}
    for entry in (word.strip() for word in text.split(",")):
        if entry not in known:
            named = ", ".join(languages[:10])
            raise BadSetting(
                key, f"{entry!r} is not a direction between two of {named}; {did_you_mean(entry, list(known))}"
            )
        wanted = known[entry]
        fits = [
            each
            for each in among(languages)
            if wanted.source in (EVERY, each.source) and wanted.target in (EVERY, each.target)
        ]
        if not fits:
            raise BadSetting(key, f"{entry!r} is from a language into itself")
        chosen |= dict.fromkeys(fits)
    return list(chosen)
