"""Ctrl-C and SIGTERM at random instants and at file operations: one line, exit 130 or 143, and nothing is lost."""

import json
import signal
import time
from pathlib import Path

import pytest

from torture.harness import Ended, Forks, Tally, chance, count, wait_until
from torture.test_kills import NAMES, compare, finish, unbroken

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def check(ended: Ended, number: int, tally: Tally) -> None:
    """It was stopped, or was done already; in either case it says one thing at most on standard error."""
    tally.check(ended, 0, 128 + number)
    if len(ended.err.strip().splitlines()) > 1:
        tally.found("tracebacks", f"{ended.words}: {ended.err}")


@pytest.mark.parametrize("name", NAMES)
def test_signals_at_random_instants(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    work, expected, seconds = unbroken(name, forks, bases)
    random = chance("signals", name)
    for round in range(count(10, 2)):
        folder, number = tmp_path / f"round-{round}", SIGNALS[round % 2]
        child = forks.start("torture.works:verb", folder, words=list(work.begin))
        time.sleep(random.uniform(0, seconds))
        child.send(number)
        check(child.wait(), number, tally)
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, {number.name}, round {round}", tally)
        tally.add("signals")


@pytest.mark.parametrize("name", NAMES)
def test_signals_at_file_operations(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    """In the midst of saves, of reading and of caching."""
    work, expected, _ = unbroken(name, forks, bases)
    folder = tmp_path / "counted"
    forks.run("torture.filelayer:counted_verb", folder, words=list(work.begin))
    operations = json.loads((folder / "operations.json").read_text())
    random = chance("signals", "operations", name)
    for at in sorted(random.choice(len(operations), min(count(10, 2), len(operations)), replace=False).tolist()):
        folder, number = tmp_path / f"operation-{at}", SIGNALS[at % 2]
        ended = forks.run("torture.filelayer:signalled_verb", folder, words=list(work.begin), at=at, number=int(number))
        check(ended, number, tally)
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, {number.name} at operation {at}, {operations[at]}", tally)
        tally.add("signals")


def test_a_second_signal_stops_at_once(forks: Forks, tmp_path: Path, tally: Tally) -> None:
    """Training that cannot reach the end of its step, because a step takes longer than anybody would wait."""
    child = forks.start("torture.test_signals:train_for_ever", tmp_path)
    assert wait_until((tmp_path / "in-a-step").exists)
    child.send(signal.SIGINT)
    time.sleep(0.1)
    child.send(signal.SIGINT)
    tally.check(child.wait(10), 130)
    tally.add("signals", 2)


def train_for_ever() -> None:
    from headway.training.loop import Loop
    from torture.works import SMALLEST, verb

    def endless(*arguments: object) -> None:
        Path("in-a-step").touch()
        while True:
            time.sleep(0.01)

    Loop.step = endless  # type: ignore[assignment,method-assign]
    verb(["train", "parity", *SMALLEST, "--out", "run"])
