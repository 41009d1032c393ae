"""Means over languages, or over directions of translation: each counts the same, however much text it has."""

from collections.abc import Container, Iterable, Mapping
from typing import TypeVar

Direction = TypeVar("Direction", bound=tuple[str, str])  # source and target
ALL, THIRDS = "mean over languages", ("high-resource third", "middle third", "low-resource third")
FEWEST = 6  # languages, for thirds
TRAINED, ZERO_SHOT = "mean over trained directions", "mean over zero-shot directions"


def language_means(
    by_language: Mapping[str, Mapping[str, float]], sizes: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """The mean of each metric over all languages, and over the thirds with most, less and least training text."""
    if not by_language:
        return {}
    groups = {ALL: list(by_language)}
    if len(by_language) >= FEWEST:
        ranked = sorted(by_language, key=lambda name: (-sizes.get(name, 0), name))
        first, second = round(len(ranked) / 3), round(2 * len(ranked) / 3)
        groups |= zip(THIRDS, (ranked[:first], ranked[first:second], ranked[second:]), strict=True)
    return {group: mean(by_language[name] for name in names) for group, names in groups.items()}


def direction_means(
    by_direction: Mapping[Direction, Mapping[str, float]], trained: Container[Direction]
) -> dict[str, dict[str, float]]:
    """The mean of each metric over the directions that are trained on, and over the others."""
    groups: dict[str, list[Mapping[str, float]]] = {TRAINED: [], ZERO_SHOT: []}
    for direction, metrics in by_direction.items():
        groups[TRAINED if direction in trained else ZERO_SHOT].append(metrics)
    return {group: mean(rows) for group, rows in groups.items() if rows}


def mean(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of each metric; the examples are added up."""
    listed = list(rows)
    totals = {name: sum(row[name] for row in listed) for name in listed[0]}
    return {name: total if name == "examples" else total / len(listed) for name, total in totals.items()}
