"""Exercises that are answered in a file of TOML: numbers and words worked out by hand, or a text, marked by its author.

Of those by hand there are as many variants as a class needs: each seed makes another one.
"""

import math
import random
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from headway.config.json_files import read_text
from headway.data.files import Progress, silent
from headway.learn.exercise import NOT_YET, Exercise, Finding, Report, wrapped

MOST_BYTES = 1 << 16
RELATIVE, ABSOLUTE = 0.01, 0.005  # how far a number may be off
LEAST_WORDS = 8  # of an answer in words
Answer = Any  # a number, a word, a list of these, or a set of words, whose order does not matter


@dataclass(frozen=True)
class Question:
    text: str
    answers: Mapping[str, Answer]
    worked: str
    wrong: Mapping[str, Mapping[str, Answer]] = field(default_factory=dict)  # a sentence, and the answers it is about


@dataclass(frozen=True, kw_only=True, eq=False)
class ByHand(Exercise):
    make: Callable[[random.Random], Question]
    task: str = ""
    kind = "by hand"

    def question(self, seed: int) -> Question:
        return self.make(random.Random(f"{self.id} {seed}"))

    def skeleton(self, seed: int) -> str:
        answers = self.question(seed).answers
        return self.head(seed) + "".join(f"{name} = {empty(value)}\n" for name, value in answers.items())

    def solved(self, seed: int) -> str:
        answers = self.question(seed).answers
        return self.head(seed) + "".join(f"{name} = {written(value)}\n" for name, value in answers.items())

    def head(self, seed: int) -> str:
        about = 'Numbers may be off by 1 %; fractions are written in quotes: "2/3".'
        return commented(f"{self.id}: {self.title}\n\n{wrapped(self.question(seed).text)}\n\n{about}")

    def explained(self, seed: int) -> str:
        return wrapped(self.question(seed).worked)

    def check(self, path: Path, seed: int, progress: Progress = silent) -> Report:
        question = self.question(seed)
        given, problem = read_answers(path)
        if problem:
            return Report(self.id, [Finding("can be read", False, problem)])
        findings = [judged(name, given.get(name, ""), right) for name, right in question.answers.items()]
        advice = next((text for text, wrong in question.wrong.items() if agree(given, wrong)), "")
        if all(finding.ok for finding in findings):
            advice = ""
        return Report(self.id, findings, advice, score=sum(each.ok for each in findings) / len(findings))


@dataclass(frozen=True, kw_only=True, eq=False)
class Short(Exercise):
    """A question to answer in words. The learner marks it, with a list of what a good answer says."""

    answer: str
    marks: Sequence[str]
    hints: tuple[str, ...] = ()
    kind = "in words"

    def skeleton(self, seed: int) -> str:
        return self.head() + 'answer = """\n"""\nmarks = []\n'

    def solved(self, seed: int) -> str:
        return self.head() + f'answer = """\n{wrapped(self.answer)}\n"""\nmarks = {[1] * len(self.marks)}\n'

    def head(self) -> str:
        about = (
            f"First write your answer. Then check: you see the {len(self.marks)} points of a good one, and mark yours."
        )
        return commented(f"{self.id}: {self.title}\n\n{wrapped(self.task)}\n\n{about}")

    def hint(self, number: int, seed: int) -> str:
        """What a good answer speaks of: more of it each time."""
        return "a good answer says: " + "; ".join(self.marks[:number])

    def explained(self, seed: int) -> str:
        return wrapped(self.answer)

    def check(self, path: Path, seed: int, progress: Progress = silent) -> Report:
        given, problem = read_answers(path)
        if problem:
            return Report(self.id, [Finding("can be read", False, problem)])
        words, marks = len(str(given.get("answer", "")).split()), given.get("marks", [])
        if words < LEAST_WORDS:
            return Report(self.id, [Finding("answered", False, f"{words} words: write at least a sentence")])
        listed = "\n".join(f"{number}. {mark}" for number, mark in enumerate(self.marks, start=1))
        is_marked = isinstance(marks, list) and len(marks) == len(self.marks) and all(mark in (0, 1) for mark in marks)
        form = f"marks = [1, 0, ...], 1 for each of the {len(self.marks)} points that your answer makes"
        findings = [Finding("answered", True), Finding("marked", is_marked, form)]
        score = sum(marks) / len(marks) if is_marked else None
        return Report(self.id, findings, f"{self.answer}\n{listed}" if not is_marked else "", score=score)


def read_answers(path: Path) -> tuple[dict[str, Any], str]:
    try:
        return tomllib.loads(read_text(path, MOST_BYTES)), ""
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path.name}: {getattr(error, 'strerror', None) or error}"


def commented(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines()) + "\n"


def empty(value: Answer) -> str:
    return "[]" if isinstance(value, list | set) else '""'


def written(value: Answer) -> str:
    """As TOML."""
    if isinstance(value, list | set):
        return f"[{', '.join(written(each) for each in (sorted(value) if isinstance(value, set) else value))}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def judged(name: str, given: Any, right: Answer) -> Finding:
    if given in ("", []):
        return Finding(name, False, NOT_YET)
    if isinstance(right, list | set) and isinstance(given, list) and len(given) != len(right):
        return Finding(name, False, f"{len(given)} values; there should be {len(right)}")
    return Finding(name, equal(given, right), "" if equal(given, right) else f"{shortened(given)} is not right")


def agree(given: Mapping[str, Any], wrong: Mapping[str, Answer]) -> bool:
    return all(equal(given.get(name, ""), value) for name, value in wrong.items())


def equal(given: Any, right: Answer) -> bool:
    if isinstance(right, set):
        return isinstance(given, list) and sorted(map(plain, given)) == sorted(map(plain, right))
    if isinstance(right, list):
        is_long = isinstance(given, list) and len(given) == len(right)
        return is_long and all(equal(one, other) for one, other in zip(given, right, strict=True))
    if isinstance(right, str):
        return plain(given) == plain(right)
    number = number_in(given)
    if number is None:
        return False
    exact = isinstance(right, int) and abs(right) < 1000
    return number == right if exact else math.isclose(number, right, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def number_in(given: Any) -> float | None:
    try:
        number = float(Fraction(given)) if isinstance(given, str) else float(given)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def plain(given: Any) -> str:
    return "".join(str(given).lower().split())


def shortened(given: Any) -> str:
    text = str(given)
    return text if len(text) <= 60 else f"{text[:57]}..."


def rows(matrix: Sequence[Sequence[float]]) -> Iterator[str]:
    """A matrix as indented lines, which keep their breaks."""
    for row in matrix:
        yield "    " + "  ".join(f"{value:>6g}" for value in row)
