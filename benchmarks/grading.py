"""headway learn grade over a class of submissions of known quality: whether every grade is as it should be, and how
long that takes.

python benchmarks/grading.py                      # 30 learners, all exercises but those that train
python benchmarks/grading.py --only goal look     # those that train
"""

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

from headway.learn.catalogue import chosen, exercise
from headway.learn.exercise import Exercise, FillIn
from headway.learn.folder import Folder, Progress
from headway.learn.grading import grade
from headway.learn.training import Train

SEED, TEACHERS_SEED = 12, 4711  # of the handout, and of the checks


def with_mistake(found: Exercise, pick: random.Random) -> str | None:
    """The solution with a mistake of the catalogue, if it can be written into the file."""
    text = found.solved(SEED)
    if not isinstance(found, FillIn) or found.plain:
        return None
    fitting = [each for each in found.mistakes if all(text.count(old) == 1 for old, _ in each.edits)]
    if not fitting:
        return None
    for old, new in pick.choice(fitting).edits:
        text = text.replace(old, new)
    return text


def hand_in(folder: Path, names: list[str], number: int) -> dict[str, float]:
    """A learner who solves about as many exercises as the number says; returns the right grades."""
    pick, place = random.Random(number), Folder.create(folder, names, Progress(seed=SEED))
    right = {}
    for name in names:
        found, kind = exercise(name), pick.random()
        right[name] = float(found.is_given)
        if kind < 0.3 + 0.02 * number:
            place.file(found).write_text(found.solved(SEED))
            right[name] = 1.0
        elif kind < 0.8 and (text := with_mistake(found, pick)) is not None:
            place.file(found).write_text(text)
            right[name] = 0.0
    return right


def cpu_seconds() -> float:
    """Of this process and of all that it has waited for."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=())
    given = parser.parse_args()
    names = chosen(given.only)
    if not given.only:
        names = [name for name in names if not isinstance(exercise(name), Train)]
    with tempfile.TemporaryDirectory() as parent:
        folders = [Path(parent, f"learner{number:02}") for number in range(given.learners)]
        right = {
            (folder.name, name): score
            for number, folder in enumerate(folders)
            for name, score in hand_in(folder, names, number).items()
        }
        start, before = time.perf_counter(), cpu_seconds()
        grades = grade(folders, TEACHERS_SEED, workers=given.workers)
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - before
    wrong = [each for each in grades.graded if abs(each.score - right[each.learner, each.exercise]) > 1e-3]
    size = f"{given.learners} learners x {len(names)} exercises"
    print(f"{size}, {given.workers} workers: {seconds:.0f} s, {cpu:.0f} s of CPU")
    print(f"{len(grades.graded) - len(wrong)} of {len(grades.graded)} grades are as they should be")
    for each in wrong:
        expected = right[each.learner, each.exercise]
        print(f"  {each.learner} {each.exercise}: {each.score:.2f}, not {expected:.2f} {each.findings[:2]}")


if __name__ == "__main__":
    main()
