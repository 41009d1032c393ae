"""Exercises in which headway really trains: the learner writes settings, or looks at a model that the exercise trains,
and what is asked is compared with what this training gives.

The file is TOML: answers, and then a table of settings for each run. Only the settings that the exercise names may be
changed, and only as far as it says, so that a class can be graded in a foreseeable time.
"""

import atexit
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from headway.data.files import Progress, silent
from headway.learn.answers import Answer, commented, equal, read_answers, shortened, written
from headway.learn.exercise import NOT_YET, Exercise, Finding, Report, wrapped
from headway.learn.trials import RUNS, Measure, Trained, Trial, test_accuracies, train

Room = Mapping[str, Sequence[Any]]  # a setting, and its choices (texts), or its least and its largest value
Settings = Mapping[str, Any]  # by their dotted names
Results = Mapping[str, Trained]  # of the runs, by their names


@dataclass(frozen=True)
class Entrant:
    """A run of the exercise: what it trains, and what the learner may choose of it."""

    recipe: str
    fixed: tuple[str, ...] = ()
    room: Room = field(default_factory=dict)
    begin: Settings = field(default_factory=dict)  # what the file has at first
    solution: Settings = field(default_factory=dict)
    measure: Measure = test_accuracies
    start: "Entrant | None" = None
    table: str = ""  # which table of the file has its settings; its own name, if none is named
    last: tuple[str, ...] = ()  # settings that the learner's do not change

    def trial(self, chosen: Settings, seed: int) -> Trial:
        own = [f"{name}={value}" for name, value in chosen.items()]
        start = self.start.trial({}, seed) if self.start else None
        return Trial(self.recipe, (*self.fixed, *own, *self.last, f"train.seed={seed}"), self.measure, start)


@dataclass(frozen=True)
class Asked:
    """A question whose answer comes from the training."""

    right: Callable[[Results], Answer]
    about: str  # for the file
    tolerance: float = 0.0  # of a number
    is_guess: bool = False  # any number from 0 to 1 will do, but there has to be one
    is_list: bool = False
    also: Callable[[Results], Sequence[Answer]] = lambda results: ()  # as good, because they are nearly as good

    def finding(self, name: str, given: Any, results: Results) -> Finding:
        right = self.right(results)
        if given in ("", []):
            return Finding(name, False, NOT_YET)
        if self.is_guess:
            is_number = isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1
            return Finding(name, is_number, f"{shortened(given)} is not a number from 0 to 1" if not is_number else "")
        if self.tolerance:
            is_number = isinstance(given, int | float) and math.isfinite(given)
            is_right = is_number and abs(given - right) <= self.tolerance + 1e-9
        else:
            is_right = any(equal(given, one) for one in (right, *self.also(results)))
        return Finding(name, is_right, "" if is_right else f"{shortened(given)} is not right")


@dataclass(frozen=True)
class Slip:
    """A mistake that has a sentence of its own, and settings and answers that make it."""

    sentence: str
    made: Callable[[Mapping[str, Settings], Results], bool]
    example: Mapping[str, Any]  # run -> other settings; answers


@dataclass(frozen=True, kw_only=True, eq=False)
class Train(Exercise):
    runs: Mapping[str, Entrant]
    marks: Mapping[str, Callable[[Results], tuple[bool, str]]] = field(default_factory=dict)  # whether, and how much
    asked: Mapping[str, Asked] = field(default_factory=dict)
    slips: Sequence[Slip] = ()
    worked: str = ""
    score: Callable[[Results], float] = lambda results: 1.0  # from 0 to 1, of those that pass
    looks: bool = False  # the model is there before anything is answered
    kind = "train"

    def skeleton(self, seed: int) -> str:
        blank = {name: "[]" if one.is_list else '""' for name, one in self.asked.items()}
        return self.text({name: run.begin for name, run in self.runs.items()}, blank)

    def solved(self, seed: int) -> str:
        """With the answers to what really comes out, which is found by training."""
        results = solved_apart(self, seed)
        chosen = {name: run.solution for name, run in self.runs.items()}
        return self.text(chosen, {name: written(one.right(results)) for name, one in self.asked.items()})

    def with_example(self, example: Mapping[str, Any], seed: int) -> str:
        """The solution with other settings, and perhaps other answers: a mistake."""
        chosen = {
            name: {**run.solution, **example.get(run.table or name, {})} if run.room else {}
            for name, run in self.runs.items()
        }
        results = solved_apart(self, seed)
        answers = {name: example.get(name, one.right(results)) for name, one in self.asked.items()}
        return self.text(chosen, {name: written(value) for name, value in answers.items()})

    @property
    def tables(self) -> dict[str, str]:
        """The tables of settings that the file has, each with the first run that reads it."""
        found: dict[str, str] = {}
        for name, run in self.runs.items():
            if run.room:
                found.setdefault(run.table or name, name)
        return found

    def text(self, chosen: Mapping[str, Settings], answers: Mapping[str, str]) -> str:
        lines = [f"{name} = {value}  # {self.asked[name].about}" for name, value in answers.items()]
        for table, name in self.tables.items():
            room = self.runs[name].room
            lines += ["", f"[{table}]"]
            lines += [f"{key} = {written(value)}  # {described(room[key])}" for key, value in chosen[name].items()]
        return commented(f"{self.id}: {self.title}\n\n{wrapped(self.task)}") + "\n".join(lines).strip() + "\n"

    def explained(self, seed: int) -> str:
        chosen = [
            "\n".join([f"[{table}]", *(f"{key} = {written(value)}" for key, value in self.runs[name].solution.items())])
            for table, name in self.tables.items()
        ]
        return "\n\n".join([*chosen, wrapped(self.worked)])

    def check(self, path: Path, seed: int, progress: Progress = silent) -> Report:
        given, problem = read_answers(path)
        if problem:
            return Report(self.id, [Finding("can be read", False, problem)])
        chosen, problem = self.chosen(given)
        if problem:
            return Report(self.id, [Finding("settings", False, problem)])
        missing = [name for name in self.asked if given.get(name, "") in ("", [])]
        if missing and not self.looks:
            return Report(self.id, [Finding(name, False, NOT_YET) for name in missing])
        untouched = all(chosen[name] == dict(run.begin) for name, run in self.runs.items())
        if untouched and not self.asked:
            return Report(self.id, [Finding("settings", False, "nothing has been changed yet")])
        results = {}
        for name, run in self.runs.items():
            results[name] = train(run.trial(chosen[name], seed), path.with_suffix(RUNS) / name, progress)
            if results[name].problem:
                detail = results[name].problem if len(self.runs) == 1 else f"{name}: {results[name].problem}"
                return self.report([Finding("trains", False, detail)], chosen, results)
        findings = [Finding("trains", True, value=where(results)), *self.judged(given, results)]
        return self.report(findings, chosen, results)

    def judged(self, given: Mapping[str, Any], results: Results) -> Iterator[Finding]:
        for name, holds in self.marks.items():
            ok, detail = holds(results)
            yield Finding(name, ok, detail, detail)
        for name, one in self.asked.items():
            yield one.finding(name, given.get(name, ""), results)

    def report(self, findings: list[Finding], chosen: Mapping[str, Settings], results: Results) -> Report:
        ok = all(finding.ok for finding in findings)
        advice = "" if ok else next((slip.sentence for slip in self.slips if made(slip, chosen, results)), "")
        curves = {name: [tuple(point) for point in each.curve] for name, each in results.items() if each.curve}
        held = sum(finding.ok for finding in findings) / len(findings)
        is_done = findings[0].ok and (ok or self.looks)
        score = (self.score(results) if ok else held) if is_done else 0.0
        return Report(self.id, findings, advice, score=score, curves=curves)

    def chosen(self, given: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], str]:
        """The settings of each run, and what is wrong with them."""
        chosen: dict[str, dict[str, Any]] = {}
        if strange := [name for name in given if name not in (*self.asked, *self.tables)]:
            return chosen, f"{strange[0]!r} is neither a question nor a table of this exercise"
        for name, run in self.runs.items():
            table = given.get(run.table or name, {})
            if not isinstance(table, dict):
                return chosen, f"[{name}] must be a table of settings"
            chosen[name] = {**run.begin, **flat(table)}
            for key, value in chosen[name].items():
                if problem := out_of_room(key, value, run.room):
                    return chosen, f"[{name}] {problem}" if len(self.runs) > 1 else problem
        return chosen, ""

    def grade(self, path: Path, seed: int) -> Report:
        """From the settings alone, whatever else was handed in; the same settings are trained once."""
        given, problem = read_answers(path)
        chosen = self.chosen(given)[0]
        if problem or not chosen:
            return self.check(path, seed)
        own = graded_folder() / sha256(json.dumps([self.id, seed, chosen], sort_keys=True).encode()).hexdigest()
        own.mkdir(exist_ok=True)
        shutil.copyfile(path, own / path.name)
        return self.check(own / path.name, seed)


def made(slip: Slip, chosen: Mapping[str, Settings], results: Results) -> bool:
    try:
        return slip.made(chosen, results)
    except KeyError:  # of what was not measured
        return False


def where(results: Results) -> str:
    return "; ".join(f"{each.steps} steps, {each.parameters:,} parameters: {each.folder}" for each in results.values())


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def out_of_room(key: str, value: Any, room: Room) -> str:
    """What is wrong with a setting; nothing if it may have this value."""
    if key not in room:
        return f"{key} is not among the settings of this exercise: {', '.join(room)}"
    if isinstance(room[key][0], str):
        return (
            ""
            if isinstance(value, str) and value in room[key]
            else f"{key} = {shortened(value)}: choose {described(room[key])}"
        )
    least, most = room[key]
    is_number = isinstance(value, int if isinstance(least, int) else int | float) and not isinstance(value, bool)
    return "" if is_number and least <= value <= most else f"{key} = {shortened(value)}: {described(room[key])}"


def described(room: Sequence[Any]) -> str:
    return " or ".join(room) if isinstance(room[0], str) else f"from {room[0]:g} to {room[1]:g}"


@cache
def graded_folder() -> Path:
    """Of this process; it is gone when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="headway-grade-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def solved_apart(exercise: Train, seed: int) -> Results:
    """What the solution gives."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: train(run.trial(run.solution, seed), Path(folder, name)) for name, run in exercise.runs.items()}
