"""Directions of translation: from which language into which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headway.data.languages import Languages


class Direction(NamedTuple):
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class Directions(Languages):
    """Of the rows of parallel texts; ``names`` are as people write them, such as ``en-de``."""

    each: Sequence[Direction] = ()

    @classmethod
    def of(cls, directions: Sequence[Direction], rows: np.ndarray) -> "Directions":
        """``rows`` (N,) are the number of the direction of each row."""
        return cls([str(direction) for direction in directions], rows, directions)

    def by_direction(self) -> dict[Direction, np.ndarray]:
        """The rows of each direction that has any."""
        rows = self.by_name()
        return {direction: rows[str(direction)] for direction in self.each if str(direction) in rows}
