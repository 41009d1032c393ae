"""Synthetic datasets, generated on first use and cached: film reviews from a small grammar, openings of reviews, and
numbers in words, in many languages."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from headway.data.cache import kept, key_of
from headway.data.grammar import Random, plain_review, review
from headway.text.spelling import FORMS, LIMIT

REVIEWS, OPENINGS = 6_000, 4_000
PLAIN = 0.3  # fraction of reviews without negations
OPENING = 3  # maximum words
LANGUAGES = [form for form in FORMS if form != "digits"]
LISTS = 500  # of numbers, in each language
LONGEST = 3  # numbers in a list


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


def numbers(random: Random) -> Iterator[dict[str, str]]:
    """Lists of one to three numbers in words; small numbers are as frequent as large ones."""
    for _ in range(LISTS):
        for language in LANGUAGES:
            drawn = LIMIT ** random.random(int(random.integers(1, LONGEST + 1)))
            yield {"text": ", ".join(FORMS[language](int(number)) for number in drawn), "language": language}


GENERATED: dict[str, Callable[[Random], Iterator[dict[str, str]]]] = {
    "reviews": reviews,
    "openings": openings,
    "numbers": numbers,
}


def generated(name: str) -> Path:
    """The path of the generated file."""

    def write(folder: Path) -> None:
        rows = GENERATED[name](np.random.default_rng([0, len(name)]))
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")

    return kept("made", key_of(name=name, version=1), write) / f"{name}.jsonl"
