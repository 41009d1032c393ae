"""A learner's answer: a file, which runs apart from this process, or a function of this one."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from headway.config.json_files import read_text
from headway.learn import sandbox
from headway.learn.exercise import FillIn, Finding, Report
from headway.learn.judging import judge
from headway.learn.performing import Performance, cases, perform, text_of
from headway.learn.source import Region, executed, stand_in

MOST_BYTES = 1 << 20  # of a file


def check_file(exercise: FillIn, path: Path, seed: int, limits: sandbox.Limits | None = None) -> Report:
    try:
        text = read_text(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        return failed(exercise, f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
    exercise.region.function()  # nothing is read any more from then on
    ran = sandbox.run(lambda: performed(exercise, text, path, seed), limits)
    if ran.result is None or not ran.result:
        return failed(exercise, ran.reason, ran.printed)
    try:
        performance = Performance.from_bytes(ran.result)
        report = judge(exercise, performance, seed)
    except (ValueError, KeyError, TypeError) as error:
        return failed(exercise, str(error), ran.printed)
    return Report(report.exercise, report.findings, report.advice, report.grid, ran.printed)


def failed(exercise: FillIn, why: str, printed: str = "") -> Report:
    return Report(exercise.id, [Finding("runs", False, why)], printed=printed)


def performed(exercise: FillIn, text: str, path: Path, seed: int) -> bytes:
    """In a process of its own."""
    cases(exercise, seed)  # imports what it needs, while that is allowed
    stand_in(exercise.region.original())
    for name in [name for name in sys.modules if name.startswith(sandbox.OWN) and name != exercise.module]:
        del sys.modules[name]
    try:
        function, kind = find(text, path, exercise.region)
    except (Exception, SystemExit) as error:
        return Performance(error=text_of(error)).to_bytes()
    return perform(function, exercise, seed, kind).to_bytes()


def find(text: str, path: Path, region: Region) -> tuple[Callable[..., Any], type | None]:
    """The function in a learner's file, and its class if it is a method."""
    module = ModuleType("submission")
    module.__dict__["__submission__"] = True
    executed(text, str(path), module.__dict__)
    found: Any = module
    for name in region.target.split("."):
        if not hasattr(found, name):
            raise NameError(f"there is no {region.target} in {path.name}: keep its name")
        kind, found = found, getattr(found, name)
    return found, kind if isinstance(kind, type) else None


@contextmanager
def without_original(region: Region) -> Iterator[None]:
    original = region.original()
    code = stand_in(original)
    try:
        yield
    finally:
        stand_in(original, code)


def check_function(exercise: FillIn, function: Callable[..., Any], seed: int) -> Report:
    """In this process, and so without limits: for one's own functions."""
    with without_original(exercise.region):
        performance = perform(function, exercise, seed)
    return judge(exercise, performance, seed)
