"""A whole paper: exercises by hand, questions and code, drawn from all tracks; and its solution, with marks."""

import random
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.config.errors import Problem
from headway.learn.answers import ByHand, Short
from headway.learn.catalogue import exercises
from headway.learn.exercise import TRACKS, Exercise, FillIn, wrapped
from headway.learn.pages import escaped, page, prose

FIRST = ("rlhf", "multi", "embed", "pretrain", "parallel", "decode")  # every paper has one of these,
MINUTES = {"by hand": 10, "in words": 6, "fill in": 12}  # and a point is a minute
LEAST = 30
CODE_LINES = 10  # of a solution that can be written on paper


@dataclass(frozen=True)
class Exam:
    seed: int
    minutes: int
    chosen: Sequence[Exercise]

    @property
    def points(self) -> int:
        return sum(MINUTES[each.kind] for each in self.chosen)

    def paper(self) -> str:
        return page(f"Exam {self.seed}", self.head() + "".join(map(self.section, range(len(self.chosen)))))

    def solution(self) -> str:
        sections = (self.section(number, with_solution=True) for number in range(len(self.chosen)))
        return page(f"Exam {self.seed}: solution and marking scheme", self.head() + "".join(sections))

    def head(self) -> str:
        return f"<p>{self.minutes} minutes, {self.points} points. Name: ______________________________</p>"

    def section(self, number: int, with_solution: bool = False) -> str:
        exercise = self.chosen[number]
        points = MINUTES[exercise.kind]
        title = f"<h2>{number + 1}. {escaped(exercise.title)} <span class='points'>{points} points</span></h2>"
        task = prose(task_of(exercise, self.seed))
        room = "".join("<div class='lines'></div>" for _ in range(points // 2))
        return f"<section>{title}{task}{solution_of(exercise, self.seed, points) if with_solution else room}</section>"


def draw(seed: int, minutes: int) -> Exam:
    """First from each of the tracks that every paper has, then from the others, as long as there is time."""
    if minutes < LEAST:
        raise Problem(f"--minutes {minutes}: an exam takes at least {LEAST}")
    shuffled = random.Random(f"exam {seed}")
    fitting = [each for each in exercises().values() if is_for_paper(each)]
    shuffled.shuffle(fitting)
    rest = [track for track in TRACKS if track not in FIRST]
    shuffled.shuffle(rest)
    chosen: list[Exercise] = []
    left = minutes
    while True:
        added = False
        for track in [*FIRST, *rest]:
            kinds = [each.kind for each in chosen]
            members = [each for each in fitting if each.track == track and each not in chosen]
            members.sort(key=lambda each: kinds.count(each.kind))  # the kinds take turns
            if members and MINUTES[members[0].kind] <= left:
                chosen.append(members[0])
                left -= MINUTES[members[0].kind]
                added = True
        if not added:
            return Exam(seed, minutes, sorted(chosen, key=lambda each: list(TRACKS).index(each.track)))


def is_for_paper(exercise: Exercise) -> bool:
    if exercise.is_given or exercise.track == "goal":
        return False
    if isinstance(exercise, FillIn):
        return len(exercise.region.solution) <= CODE_LINES
    return isinstance(exercise, ByHand | Short) and not exercise.id.startswith("look.")


def task_of(exercise: Exercise, seed: int) -> str:
    if isinstance(exercise, ByHand):
        question = exercise.question(seed)
        return f"{wrapped(question.text)}\n\nAnswers: {', '.join(question.answers)}."
    if isinstance(exercise, FillIn):
        code = "\n".join(line for line in exercise.region.function_text().splitlines() if line.strip())
        hidden = textwrap.dedent("\n".join(exercise.region.solution)).strip().splitlines()
        head = code.split(hidden[0])[0].rstrip()
        return f"{wrapped(exercise.task)}\n\n{textwrap.indent(head, '    ')}\n        ..."
    return wrapped(exercise.task) if isinstance(exercise, Short) else ""


def solution_of(exercise: Exercise, seed: int, points: int) -> str:
    if isinstance(exercise, ByHand):
        answers = exercise.question(seed).answers
        each = points / len(answers)
        scheme = "; ".join(f"{name} = {value} ({each:.3g} points)" for name, value in answers.items())
        return prose(exercise.explained(seed)) + prose(f"Marking: {scheme}.")
    if isinstance(exercise, Short):
        each = points / len(exercise.marks)
        scheme = "; ".join(f"{mark} ({each:.3g} points)" for mark in exercise.marks)
        return prose(exercise.explained(seed)) + prose(f"Marking: {scheme}.")
    scheme = "right formula and shapes, half of the points; edge cases named in the task, the other half"
    return prose(textwrap.indent(exercise.explained(seed), "    ")) + prose(f"Marking: {scheme}.")


def save(exam: Exam, path: Path) -> tuple[Path, Path]:
    if path.suffix != ".html":
        raise Problem(f"{path}: an exam is written as .html")
    solution = path.with_name(f"{path.stem}-solution.html")
    path.write_text(exam.paper(), encoding="utf-8")
    solution.write_text(exam.solution(), encoding="utf-8")
    return path, solution
