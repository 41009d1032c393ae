"""Problems of several steps, in words, each with its answer and the way to it.

    mia has three coins . she gets four . she loses two . she doubles them . how many ?
    has three coins : three . gets four : seven . loses two : five . doubles them : ten . answer ten

    in a row : ball key ring . swap ball and key . swap ring and key . what is first ?
    ball key ring . swap ball and key : key ball ring . swap ring and key : ring ball key . answer ring

A step written down needs only the one before it, and what the question says next; the answer without them needs all
steps at once.
"""

from typing import NamedTuple

from headway.data.grammar import Random, pick

NUMBERS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
NAMES = {"mia": "she", "tom": "he", "ada": "she", "leo": "he", "eva": "she", "max": "he"}
THINGS = ["coins", "apples", "books", "cards", "stones", "shells"]
OBJECTS = ["ball", "key", "ring", "pen", "cup", "map"]
DIRECT, WRITTEN = "at once :", "step by step :"  # how the answer is wanted


class Problem(NamedTuple):
    question: str
    steps: list[str]
    answer: str

    def prompt(self, written: bool) -> str:
        return f"{self.question} {WRITTEN if written else DIRECT}"

    def solution(self, written: bool) -> str:
        way = " ".join(f"{step} ." for step in self.steps) if written else ""
        return f"{way} answer {self.answer}".strip()


def problem(steps: int, random: Random) -> Problem:
    """Of so many steps, of either kind."""
    return arithmetic(steps, random) if random.integers(2) else moves(steps, random)


def arithmetic(steps: int, random: Random) -> Problem:
    name, thing = pick(list(NAMES), random), pick(THINGS, random)
    value = int(random.integers(2, 10))
    sentences, written = (
        [f"{name} has {NUMBERS[value]} {thing} ."],
        [f"has {NUMBERS[value]} {thing} : {NUMBERS[value]}"],
    )
    for _ in range(steps):
        choices = change(value, random)
        said, value = choices[int(random.integers(len(choices)))]
        sentences.append(f"{NAMES[name]} {said} .")
        written.append(f"{said} : {NUMBERS[value]}")
    return Problem(" ".join([*sentences, "how many ?"]), written, NUMBERS[value])


def change(value: int, random: Random) -> list[tuple[str, int]]:
    """What may happen to so many things, and how many there are then; never below zero, never above twenty."""
    more, less = int(random.integers(1, 10)), int(random.integers(1, 10))
    found = [
        (f"gets {NUMBERS[more]}", value + more),
        (f"loses {NUMBERS[less]}", value - less),
        ("doubles them", 2 * value),
    ]
    if value % 2 == 0:
        found.append(("halves them", value // 2))
    possible = [(said, after) for said, after in found if 0 <= after < len(NUMBERS)]
    return possible or [("gets zero", value)]


def moves(steps: int, random: Random) -> Problem:
    objects = [OBJECTS[place] for place in random.permutation(len(OBJECTS))[:3]]
    sentences, written = [f"in a row : {' '.join(objects)} ."], [" ".join(objects)]
    for _ in range(steps):
        first, second = (int(place) for place in random.permutation(len(objects))[:2])
        said = f"swap {objects[first]} and {objects[second]}"
        objects[first], objects[second] = objects[second], objects[first]
        sentences.append(f"{said} .")
        written.append(f"{said} : {' '.join(objects)}")
    return Problem(" ".join([*sentences, "what is first ?"]), written, objects[0])


def all_words() -> list[str]:
    fixed = "has gets loses doubles halves them how many ? . : in a row swap and what is first answer she he"
    return sorted({*fixed.split(), *f"{DIRECT} {WRITTEN}".split(), *NUMBERS, *NAMES, *THINGS, *OBJECTS})
