"""Grading a class: every submission's exercises, with the teacher's own seed, and what the class knows.

Functions are checked with numbers of the teacher's seed; questions by hand and bug hunts are those of the learner's
own.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

from headway.config.errors import Problem
from headway.learn.answers import Short, read_answers
from headway.learn.exercise import Exercise, FillIn, Finding
from headway.learn.folder import Folder
from headway.learn.pages import Cell, escaped, page, table


@dataclass(frozen=True)
class Graded:
    learner: str
    exercise: str
    score: float  # from 0 to 1
    findings: list[Finding] = field(default_factory=list)
    advice: str = ""
    answer: str = ""  # in words

    @property
    def passed(self) -> bool:
        return all(finding.ok for finding in self.findings)


@dataclass(frozen=True)
class Share:
    """How many of those who handed something in have this right."""

    exercise: str
    name: str
    held: int
    total: int


@dataclass(frozen=True)
class Grades:
    graded: list[Graded]
    notes: list[str]  # submissions that cannot be read

    @property
    def learners(self) -> list[str]:
        return sorted({each.learner for each in self.graded})

    @property
    def exercises(self) -> list[str]:
        return list(dict.fromkeys(each.exercise for each in self.graded))

    def total(self, learner: str) -> float:
        """The mean over all exercises of the class; what was not handed in is 0."""
        return sum(each.score for each in self.graded if each.learner == learner) / max(len(self.exercises), 1)

    def shares(self) -> list[Share]:
        counts: dict[tuple[str, str], list[bool]] = defaultdict(list)
        for each in self.graded:
            for finding in each.findings:
                counts[each.exercise, finding.name].append(finding.ok)
        return [Share(*key, sum(held), len(held)) for key, held in counts.items()]

    def mistakes(self) -> dict[str, int]:
        """The mistakes of the catalogue that were made, the most frequent one first."""
        counts: dict[str, int] = defaultdict(int)
        for each in self.graded:
            if each.advice and not each.answer:
                counts[f"{each.exercise}: {each.advice}"] += 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def to_csv(self) -> str:
        file = io.StringIO()
        writer = csv.writer(file)
        writer.writerow(["learner", *self.exercises, "total"])
        scores = {(each.learner, each.exercise): f"{each.score:.3f}" for each in self.graded}
        for learner in self.learners:
            own = [scores.get((learner, name), "") for name in self.exercises]
            writer.writerow([harmless(learner), *own, f"{self.total(learner):.3f}"])
        return file.getvalue()

    def to_json(self) -> str:
        totals = {learner: self.total(learner) for learner in self.learners}
        shares = [asdict(share) for share in self.shares()]
        data = {"totals": totals, "graded": [asdict(each) for each in self.graded], "shares": shares}
        return json.dumps(data | {"mistakes": self.mistakes(), "notes": self.notes}, indent=1)

    def to_html(self) -> str:
        scores = {(each.learner, each.exercise): each.score for each in self.graded}
        rows: list[list[str | Cell]] = [
            [learner, *(Cell(scores.get((learner, name))) for name in self.exercises), Cell(self.total(learner))]
            for learner in self.learners
        ]
        parts = [table(["learner", *self.exercises, "total"], rows)]
        shares: list[list[str | Cell]] = [
            [each.exercise, each.name, f"{each.held} of {each.total}", Cell(each.held / each.total)]
            for each in self.shares()
        ]
        parts += ["<h2>By property</h2>", table(["exercise", "property", "holds for", ""], shares)]
        parts += [
            "<h2>Mistakes</h2>",
            table(["mistake", "made by"], [[text, str(count)] for text, count in self.mistakes().items()]),
        ]
        answers = [
            [each.exercise, each.learner, each.answer, f"{each.score:.0%}"] for each in self.graded if each.answer
        ]
        if answers:
            parts += ["<h2>Answers in words, with the learners' own marks</h2>"]
            parts += [table(["question", "learner", "answer", "marked"], sorted(answers))]
        parts += [f"<p>{escaped(note)}</p>" for note in self.notes]
        return page("Grades", "\n".join(parts))


WRITERS: dict[str, Callable[[Grades], str]] = {".csv": Grades.to_csv, ".json": Grades.to_json, ".html": Grades.to_html}


def harmless(text: str) -> str:
    """A spreadsheet takes what begins with one of these for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text


def grade(
    folders: Sequence[Path], seed: int, progress: Callable[[str], None] = lambda name: None, workers: int = 1
) -> Grades:
    """With several workers, each one is a process that grades whole submissions."""
    if not folders:
        raise Problem("there is nothing to grade: name the folders of the submissions")
    names = [path.resolve().name for path in folders]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Problem(f"two folders are called {twice}: learners are told apart by the names of their folders")
    graded, notes = list[Graded](), list[str]()
    for name, (own, note) in zip(names, each_submission(names, folders, seed, workers), strict=True):
        progress(name)
        graded += own
        notes += [note] if note else []
    return Grades(graded, notes)


def each_submission(
    names: Sequence[str], folders: Sequence[Path], seed: int, workers: int
) -> Iterator[tuple[list[Graded], str]]:
    if workers <= 1 or len(folders) < 2 * workers:
        yield from (grade_folder(name, path, seed) for name, path in zip(names, folders, strict=True))
        return
    fresh = get_context("spawn")  # each makes processes of its own, which wants one that has no threads yet
    with ProcessPoolExecutor(workers, fresh) as pool:
        yield from pool.map(grade_folder, names, folders, [seed] * len(folders))


def grade_folder(name: str, path: Path, seed: int) -> tuple[list[Graded], str]:
    """What it has earned; or why it cannot be read."""
    try:
        folder = Folder.open(path)
    except Problem as problem:
        return [], f"{name}: {problem}"
    return [grade_one(name, folder, exercise, seed) for exercise in folder.exercises], ""


def grade_one(learner: str, folder: Folder, exercise: Exercise, seed: int) -> Graded:
    own = seed if isinstance(exercise, FillIn) else folder.progress.seed
    path = folder.file(exercise)
    report = exercise.grade(path, own)
    answer = str(read_answers(path)[0].get("answer", "")).strip() if isinstance(exercise, Short) else ""
    score = float(report.passed) if report.score is None else report.score
    return Graded(learner, exercise.id, score, report.findings, report.advice, answer)


def check_names(files: Sequence[Path]) -> None:
    """Before the work starts."""
    for path in files:
        if path.suffix not in WRITERS:
            raise Problem(f"{path}: grades are written as {', '.join(WRITERS)}")


def save(grades: Grades, path: Path) -> None:
    path.write_text(WRITERS[path.suffix](grades), encoding="utf-8")


def graded_folders(paths: Sequence[Path]) -> Iterator[Path]:
    """Folders of submissions; a folder that is none itself stands for those in it."""
    for path in paths:
        if not path.is_dir():
            raise Problem(f"{path} is not a folder")
        yield from [path] if Folder.is_one(path) else sorted(each for each in path.iterdir() if each.is_dir())
