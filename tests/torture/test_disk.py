"""A full disk, a broken one and one that is read-only, at every write: one line, and what was saved goes on."""

import json
from pathlib import Path

import pytest

from torture.harness import Forks, Tally, chance, count
from torture.test_kills import NAMES, compare, finish, unbroken

CODES = ("ENOSPC", "EIO", "EDQUOT", "EROFS")


@pytest.mark.parametrize("name", NAMES)
def test_operations_fail(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    """One operation, or this and all later ones; with room again, the work is done to the same end."""
    work, expected, _ = unbroken(name, forks, bases)
    folder = tmp_path / "counted"
    forks.run("torture.filelayer:counted_verb", folder, words=list(work.begin))
    operations = json.loads((folder / "operations.json").read_text())
    random = chance("disk", name)
    for at in sorted(random.choice(len(operations), min(count(30, 3), len(operations)), replace=False).tolist()):
        folder, code, lasting = tmp_path / f"operation-{at}", str(random.choice(CODES)), bool(random.integers(2))
        ended = forks.run(
            "torture.filelayer:refused_verb", folder, words=list(work.begin), at=at, code=code, lasting=lasting
        )
        tally.check(ended, 0, 2)
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, {code} at operation {at}, {operations[at]}", tally)
        tally.add("failed operations")


@pytest.mark.parametrize("name", NAMES)
def test_files_have_a_limit(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    """The system itself refuses to write further: the file is as long as it may be."""
    work, expected, _ = unbroken(name, forks, bases)
    random = chance("limit", name)
    for round in range(count(8, 1)):
        folder, largest = tmp_path / f"round-{round}", int(2 ** random.uniform(4, 16))
        ended = forks.run("torture.filelayer:limited_verb", folder, words=list(work.begin), largest=largest)
        tally.check(ended, 0, 2)
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, no file above {largest} bytes", tally)
        tally.add("full disks")
