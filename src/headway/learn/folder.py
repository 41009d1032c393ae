"""A learner's folder: a file for each exercise, and what has been solved so far, as JSON."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headway.config.errors import Problem
from headway.config.json_files import read_json
from headway.data.files import Progress as ShowProgress
from headway.data.files import silent
from headway.learn.catalogue import exercises
from headway.learn.exercise import Exercise, Report

STATE = "progress.json"
SHAPE = {"seed": int, "exercises": [str], "solved": [str], "hints": {str: int}, "hint_levels": int, "solutions": bool}
ALL_HINTS = 3


@dataclass
class Progress:
    seed: int = 1
    exercises: list[str] = field(default_factory=list)
    solved: list[str] = field(default_factory=list)
    hints: dict[str, int] = field(default_factory=dict)  # how many were read
    hint_levels: int = ALL_HINTS  # how many may be read
    solutions: bool = True  # whether they may be


class Folder:
    def __init__(self, path: Path, progress: Progress):
        self.path, self.progress = path, progress

    @classmethod
    def create(cls, path: Path, names: Iterable[str] | None = None, progress: Progress | None = None) -> "Folder":
        """Write the files of the exercises; those that are there already stay as they are."""
        if path.exists() and not path.is_dir():
            raise Problem(f"{path} is a file: name a folder for the exercises")
        folder = cls.open(path) if cls.is_one(path) else cls(path, progress or Progress())
        wanted = list(exercises() if names is None else names)
        folder.progress.exercises = [name for name in exercises() if name in {*folder.progress.exercises, *wanted}]
        for exercise in folder.exercises:
            if not folder.file(exercise).exists():
                folder.reset(exercise)
        folder.save()
        return folder

    @classmethod
    def open(cls, path: Path) -> "Folder":
        if not cls.is_one(path):
            raise Problem(f"{path} is not a folder of exercises: make one with headway learn init {path}")
        content = {name: value for name, value in read_json(path / STATE, SHAPE).items() if name in SHAPE}
        return cls(path, Progress(**content))

    @staticmethod
    def is_one(path: Path) -> bool:
        return (path / STATE).is_file()

    @property
    def exercises(self) -> list[Exercise]:
        return [each for name, each in exercises().items() if name in self.progress.exercises]

    def file(self, exercise: Exercise) -> Path:
        return self.path / exercise.file

    def reset(self, exercise: Exercise) -> None:
        """The file as it was at the beginning."""
        path = self.file(exercise)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, exercise.skeleton(self.progress.seed))
        if exercise.id in self.progress.solved:
            self.progress.solved.remove(exercise.id)
        self.save()

    def save(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write(self.path / STATE, json.dumps(asdict(self.progress), indent=1) + "\n")

    def check(self, exercise: Exercise, progress: ShowProgress = silent) -> Report:
        report = exercise.check(self.file(exercise), self.progress.seed, progress)
        solved = self.progress.solved
        if report.passed != (exercise.id in solved):
            (solved.append if report.passed else solved.remove)(exercise.id)
            self.save()
        return report

    def hint(self, exercise: Exercise) -> tuple[int, str]:
        """The next one, and its number; the last one again, after that."""
        number = min(self.progress.hints.get(exercise.id, 0) + 1, self.progress.hint_levels)
        if number < 1:
            raise Problem("these exercises come without hints")
        self.progress.hints[exercise.id] = number
        self.save()
        return number, exercise.hint(number, self.progress.seed)

    def solution(self, exercise: Exercise) -> str:
        if not self.progress.solutions:
            raise Problem("these exercises come without solutions")
        read = self.progress.hints.get(exercise.id, 0)
        if exercise.id not in self.progress.solved and read < ALL_HINTS:
            missing = ALL_HINTS - read
            raise Problem(
                f"{exercise.id} is not solved yet: its solution is shown after that, or after {missing} more "
                f"hint{'s' * (missing > 1)} (headway learn hint {exercise.id})"
            )
        return exercise.explained(self.progress.seed)

    def open_exercises(self) -> Iterator[Exercise]:
        return (each for each in self.exercises if each.id not in self.progress.solved)


def write(path: Path, text: str) -> None:
    """Whole, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
