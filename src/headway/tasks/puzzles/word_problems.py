"""Multi-step word problems with their answers and the steps to them.

    mia has three coins . she gets four . she loses two . she doubles them . how many ?
    has three coins : three . gets four : seven . loses two : five . doubles them : ten . answer ten

    in a row : ball key ring . swap ball and key . swap ring and key . what is first ?
    ball key ring . swap ball and key : key ball ring . swap ring and key : ring ball key . answer ring

A written step only needs the previous one and the next sentence of the question; a direct answer needs all steps at
once.
"""

from typing import NamedTuple

from headway.data.grammar import Random, pick
from headway.text.spelling import FORMS

NUMBERS = [FORMS["en"](number) for number in range(21)]
NAMES = {"mia": "she", "tom": "he", "ada": "she", "leo": "he", "eva": "she", "max": "he"}
THINGS = ["coins", "apples", "books", "cards", "stones", "shells"]
OBJECTS = ["ball", "key", "ring", "pen", "cup", "map"]
DIRECT, STEPWISE = "at once :", "step by step :"  # how to answer


class WordProblem(NamedTuple):
    question: str
    steps: list[str]  # what is given, then the result of each step
    answer: str

    def prompt(self, with_steps: bool) -> str:
        return f"{self.question} {STEPWISE if with_steps else DIRECT}"

    def solution(self, with_steps: bool) -> str:
        steps = " ".join(f"{step} ." for step in self.steps) if with_steps else ""
        return f"{steps} answer {self.answer}".strip()


def word_problem(steps: int, random: Random) -> WordProblem:
    """A random problem of ``steps`` steps: arithmetic, or objects that swap places."""
    return arithmetic(steps, random) if random.integers(2) else swaps(steps, random)


def arithmetic(steps: int, random: Random) -> WordProblem:
    name, thing = pick(list(NAMES), random), pick(THINGS, random)
    value = int(random.integers(2, 10))
    sentences = [f"{name} has {NUMBERS[value]} {thing} ."]
    written = [f"has {NUMBERS[value]} {thing} : {NUMBERS[value]}"]
    for _ in range(steps):
        choices = events(value, random)
        event, value = choices[int(random.integers(len(choices)))]
        sentences.append(f"{NAMES[name]} {event} .")
        written.append(f"{event} : {NUMBERS[value]}")
    return WordProblem(" ".join([*sentences, "how many ?"]), written, NUMBERS[value])


def events(value: int, random: Random) -> list[tuple[str, int]]:
    """What may happen next, and the value after it; never below zero, never above twenty."""
    more, less = int(random.integers(1, 10)), int(random.integers(1, 10))
    choices = [
        (f"gets {NUMBERS[more]}", value + more),
        (f"loses {NUMBERS[less]}", value - less),
        ("doubles them", 2 * value),
    ]
    if value % 2 == 0:
        choices.append(("halves them", value // 2))
    possible = [(event, after) for event, after in choices if 0 <= after < len(NUMBERS)]
    return possible or [("gets zero", value)]


def swaps(steps: int, random: Random) -> WordProblem:
    objects = [OBJECTS[index] for index in random.permutation(len(OBJECTS))[:3]]
    sentences, written = [f"in a row : {' '.join(objects)} ."], [" ".join(objects)]
    for _ in range(steps):
        first, second = (int(index) for index in random.permutation(len(objects))[:2])
        move = f"swap {objects[first]} and {objects[second]}"
        objects[first], objects[second] = objects[second], objects[first]
        sentences.append(f"{move} .")
        written.append(f"{move} : {' '.join(objects)}")
    return WordProblem(" ".join([*sentences, "what is first ?"]), written, objects[0])


def all_words() -> list[str]:
    fixed = "has gets loses doubles halves them how many ? . : in a row swap and what is first answer she he"
    return sorted({*fixed.split(), *f"{DIRECT} {STEPWISE}".split(), *NUMBERS, *NAMES, *THINGS, *OBJECTS})
