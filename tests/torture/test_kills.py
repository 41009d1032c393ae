"""Kill -9 at random instants, and before and inside every file operation: what goes on ends with the same bits."""

import json
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from torture.harness import SHARE, Forks, Tally, chance, count
from torture.works import WORKS, Work, outcome

SMALL = [name for name, work in WORKS.items() if work(Path()).small]
NAMES = list(WORKS) if SHARE else SMALL


class Unbroken(NamedTuple):
    """How a work ends that nothing disturbs, and how long it takes."""

    work: Work
    outcome: dict[str, str]
    seconds: float


UNBROKEN: dict[str, Unbroken] = {}


def unbroken(name: str, forks: Forks, bases: Path) -> Unbroken:
    if name not in UNBROKEN:
        work, folder = WORKS[name](bases), bases / "unbroken" / name
        began = time.monotonic()
        ended = forks.run("torture.works:verb", folder, words=list(work.begin))
        assert ended.code == 0, ended
        UNBROKEN[name] = Unbroken(work, outcome(folder), time.monotonic() - began)
        assert UNBROKEN[name].outcome
    return UNBROKEN[name]


def finish(work: Work, folder: Path, forks: Forks, tally: Tally) -> None:
    if not work.is_done(folder):
        tally.check(forks.run("torture.works:verb", folder, words=work.words(folder)), 0)


def compare(expected: dict[str, str], folder: Path, what: str, tally: Tally) -> None:
    actual = outcome(folder)
    different = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    if different:
        tally.found("wrong loads", f"{what}: {different}")


@pytest.mark.parametrize("name", NAMES)
def test_killed_at_random_instants(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    """Several kills a round, until there were enough of them."""
    work, expected, seconds = unbroken(name, forks, bases)
    random, kills, rounds = chance("kills", name), 0, 0
    while kills < count(40, 3):
        folder = tmp_path / f"round-{rounds}"
        for _ in range(int(random.integers(1, 5))):
            if work.is_done(folder):
                break
            folder.mkdir(exist_ok=True)
            child = forks.start("torture.works:verb", folder, words=work.words(folder))
            time.sleep(random.uniform(0, 1.1 * seconds))
            child.send(signal.SIGKILL)
            ended = child.wait()
            tally.check(ended, 0, -signal.SIGKILL)
            kills += ended.code == -signal.SIGKILL
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, round {rounds}", tally)
        rounds += 1
    tally.add("kills", kills)
    tally.add("runs", rounds)


@pytest.mark.parametrize("name", NAMES)
def test_killed_at_file_operations(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    """Before the k-th operation, or, if it writes, in its midst."""
    work, expected, _ = unbroken(name, forks, bases)
    folder = tmp_path / "counted"
    forks.run("torture.filelayer:counted_verb", folder, words=list(work.begin))
    operations = json.loads((folder / "operations.json").read_text())
    assert len(operations) > 5
    random = chance("operations", name)
    for number in sorted(random.choice(len(operations), min(count(40, 3), len(operations)), replace=False).tolist()):
        folder, torn = tmp_path / f"operation-{number}", bool(random.integers(2))
        ended = forks.run("torture.filelayer:killed_verb", folder, words=list(work.begin), at=number, torn=torn)
        tally.check(ended, -signal.SIGKILL)
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, killed at operation {number}, {operations[number]}", tally)
        tally.add("kills")
