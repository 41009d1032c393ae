"""Files that are made on the spot, where nothing is to be downloaded: film reviews of a small grammar, and openings of
such reviews. They are kept in the cache."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from headway.data.cache import kept, key_of
from headway.data.grammar import Random, plain_review, review

REVIEWS, OPENINGS = 6_000, 4_000
PLAIN = 0.3  # of the reviews
OPENING = 3  # words at most


def one_review(random: Random) -> str:
    """Of two or four sentences, each pair of which praises or runs down by itself."""
    pairs = int(random.integers(1, 3))
    written = [plain_review if random.random() < PLAIN else review for _ in range(pairs)]
    return " ".join(write(int(random.integers(2)), 1, random) for write in written)


def reviews(random: Random) -> Iterator[dict[str, str]]:
    return ({"text": one_review(random)} for _ in range(REVIEWS))


def openings(random: Random) -> Iterator[dict[str, str]]:
    for _ in range(OPENINGS):
        words = one_review(random).split()
        yield {"prompt": " ".join(words[: int(random.integers(2, OPENING + 1))])}


GENERATED: dict[str, Callable[[Random], Iterator[dict[str, str]]]] = {"reviews": reviews, "openings": openings}


def generated(name: str) -> Path:
    """The file of this name."""

    def write(folder: Path) -> None:
        rows = GENERATED[name](np.random.default_rng([0, len(name)]))
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    return kept("made", key_of(name=name, version=1), write) / f"{name}.jsonl"
