"""Whether the exercises themselves are right: each fails unsolved and passes with the solution, each mistake of the
catalogue is caught and named, and hints give nothing away too early."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headway.learn.exercise import Exercise, FillIn
from headway.learn.judging import judge
from headway.learn.performing import matching, perform
from headway.learn.training import Train

SLOWEST = 2.0  # seconds of a check
SEED = 1


def problems(exercise: Exercise, seed: int = SEED, brief: bool = False) -> Iterator[str]:
    """What is wrong with an exercise, in words; nothing if nothing is. ``brief``: nothing is trained."""
    if isinstance(exercise, Train):
        yield from training_problems(exercise, seed, brief)
        yield from hint_problems(exercise, seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, exercise.file.name)
        path.write_text(exercise.skeleton(seed), encoding="utf-8")
        if exercise.check(path, seed).passed != exercise.is_given:
            yield "it passes unsolved, or does not pass though it is given"
        path.write_text(exercise.solved(seed), encoding="utf-8")
        start = sum(os.times()[:4])  # of this process and of its children, whatever else the machine does
        report = exercise.check(path, seed)
        seconds = sum(os.times()[:4]) - start
        if not report.passed:
            yield f"the solution fails: {report.findings}"
        if seconds > SLOWEST:
            yield f"a check takes {seconds:.1f} seconds"
    yield from hint_problems(exercise, seed)
    if isinstance(exercise, FillIn):
        yield from mistake_problems(exercise, seed)


def training_problems(exercise: Train, seed: int, brief: bool) -> Iterator[str]:
    """Trainings take longer than other checks; a check of what was trained before does not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, exercise.file.name)
        path.write_text(exercise.skeleton(seed), encoding="utf-8")
        if not (brief and exercise.looks) and exercise.check(path, seed).passed:
            yield "it passes unsolved"
        if brief:
            return
        solved = exercise.solved(seed)
        path.write_text(solved, encoding="utf-8")
        report = exercise.check(path, seed)
        if not report.passed or report.score != 1:
            yield f"the solution fails, or does not get all points: {report.findings}"
        start = sum(os.times()[:4])
        exercise.check(path, seed)
        if (seconds := sum(os.times()[:4]) - start) > SLOWEST:
            yield f"a check without training takes {seconds:.1f} seconds"
        for slip in exercise.slips:
            path.write_text(exercise.with_example(slip.example, seed), encoding="utf-8")
            report = exercise.check(path, seed)
            if report.passed:
                yield f"this mistake passes: {slip.sentence}"
            elif report.advice != slip.sentence:
                yield f"this mistake is taken for another one: {slip.sentence} ({report.advice or report.findings})"


def hint_problems(exercise: Exercise, seed: int) -> Iterator[str]:
    lines = {line.strip() for line in exercise.explained(seed).splitlines() if len(line.strip()) > 12}
    for hint in exercise.hints[:2]:
        if any(line in hint for line in lines):
            yield f"a hint before the last one has a line of the solution: {hint}"


def mistake_problems(exercise: FillIn, seed: int) -> Iterator[str]:
    right = perform(exercise.region.function(), exercise, seed, brief=True)
    if exercise.plain and not matching(perform(exercise.plainly(), exercise, seed, brief=True), right):
        yield "the function written out differs from that of the library"
    sentences = [mistake.sentence for mistake in exercise.mistakes]
    if len(set(sentences)) < len(sentences):
        yield "two mistakes have one sentence"
    for mistake in exercise.mistakes:
        report = judge(exercise, perform(exercise.wrong(mistake), exercise, seed), seed)
        if report.passed:
            yield f"this mistake passes: {mistake.sentence}"
        elif report.advice != mistake.sentence:
            yield f"this mistake is taken for another one: {mistake.sentence} ({report.advice or report.findings})"
