"""A whole paper: exercises by hand, questions and code, drawn from all tracks; and its solution, with marks."""

import random
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.config.errors import Problem
from headway.learn.answers import ByHand, Short, written
from headway.learn.catalogue import exercises
from headway.learn.exercise import TRACKS, Exercise, FillIn, wrapped
from headway.learn.hunting import BugHunt, Hunt
from headway.learn.pages import escaped, page, prose, table

FIRST = ("rlhf", "multi", "embed", "pretrain", "parallel", "decode")  # every paper has one of these,
MINUTES = {"by hand": 10, "in words": 6, "fill in": 12, "find the bugs": 20}  # and a point is a minute
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
        title = (
            f"<h2>{number + 1}. {escaped(capitalised(exercise.title))} <span class='points'>{points} points</span></h2>"
        )
        task = prose(task_of(exercise, self.seed))
        if isinstance(exercise, BugHunt):
            return f"<section class='long'>{title}{hunt_on_paper(exercise, self.seed, points, with_solution)}</section>"
        room = "".join("<div class='lines'></div>" for _ in range(points // 2))
        return f"<section>{title}{task}{solution_of(exercise, self.seed, points) if with_solution else room}</section>"


def draw(seed: int, minutes: int) -> Exam:
    """Code with planted bugs, then something from each of the tracks that every paper has, then from the others, as
    long as there is time."""
    if minutes < LEAST:
        raise Problem(f"--minutes {minutes}: an exam takes at least {LEAST}")
    shuffled = random.Random(f"exam {seed}")
    fitting = [each for each in exercises().values() if is_for_paper(each)]
    shuffled.shuffle(fitting)
    rest = [track for track in TRACKS if track not in FIRST]
    shuffled.shuffle(rest)
    chosen: list[Exercise] = [shuffled.choice([each for each in exercises().values() if isinstance(each, BugHunt)])]
    left = minutes - MINUTES[chosen[0].kind]
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


def capitalised(title: str) -> str:
    return title[:1].upper() + title[1:]


def hunt_on_paper(exercise: BugHunt, seed: int, points: int, with_solution: bool) -> str:
    """Code with numbered lines, and a table for the lines that are wrong and for what should stand there."""
    hunt = exercise.paper(seed)
    code = enumerate(hunt.planted_text().splitlines(), start=1)
    numbered = "\n".join(f"{number:3}  {line}".rstrip() for number, line in code)
    asked = (
        f"There are {hunt.bugs} bugs in this code. For each, write the number of its line and the line as it should be."
    )
    task = f"<p>{escaped(asked)}</p><pre class='code'>{escaped(numbered)}</pre>"
    if not with_solution:
        return task + table(["line", "correction"], [["", ""]] * hunt.bugs).replace(
            "<table>", "<table class='room'>", 1
        )
    each = points / hunt.bugs
    scheme = (
        f"Marking: {each / 2:.3g} points for a line, {each / 2:.3g} for its correction, in any form that computes the "
        f"same. A right line that is called wrong costs {each / 2:.3g} points; nobody gets less than 0."
    )
    return task + table(["line", "correction", "why"], list(corrections(hunt))) + prose(scheme)


def corrections(hunt: Hunt) -> Iterator[list[str]]:
    """The number of the line, what should stand there, and why; in the order of the lines."""
    for number, right, why in sorted(hunt.corrections()):
        yield [str(number), right, why]


def solution_of(exercise: Exercise, seed: int, points: int) -> str:
    if isinstance(exercise, ByHand):
        answers = exercise.question(seed).answers
        each = points / len(answers)
        scheme = "; ".join(f"{name} = {written(value)} ({each:.3g} points)" for name, value in answers.items())
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
