"""Synthetic datasets, generated on first use and cached: film reviews from a small grammar, and openings of reviews."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from headway.data.cache import kept, key_of
from headway.data.grammar import Random, plain_review, review

REVIEWS, OPENINGS = 6_000, 4_000
PLAIN = 0.3  # fraction of reviews without negations
OPENING = 3  # maximum words


def one_review(random: Random) -> str:
    """Two or four sentences; each pair is positive or negative on its own."""
    pairs = int(random.integers(1, 3))
    kinds = [plain_review if random.random() < PLAIN else review for _ in range(pairs)]
    return " ".join(kind(int(random.integers(2)), 1, random) for kind in kinds)


def reviews(random: Random) -> Iterator[dict[str, str]]:
    return ({"text": one_review(random)} for _ in range(REVIEWS))


def openings(random: Random) -> Iterator[dict[str, str]]:
    for _ in range(OPENINGS):
        words = one_review(random).split()
        yield {"prompt": " ".join(words[: int(random.integers(2, OPENING + 1))])}


GENERATED: dict[str, Callable[[Random], Iterator[dict[str, str]]]] = {"reviews": reviews, "openings": openings}


def generated(name: str) -> Path:
    """The path of the generated file."""

    def write(folder: Path) -> None:
        rows = GENERATED[name](np.random.default_rng([0, len(name)]))
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    return kept("made", key_of(name=name, version=1), write) / f"{name}.jsonl"
