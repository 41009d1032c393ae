"""Damaged checkpoints: each is detected, the one before is used, and nothing is ever loaded that was not saved."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.runs.fit import resume
from headway.runs.run import Run
from headway.training import checkpoint
from headway.training.checkpoint import Checkpoint
from torture.damage import DAMAGES, SPECIAL, flip, junk_in_json, remake_hashes
from torture.harness import Forks, Tally, attempt, chance, count
from torture.works import SMALLEST

USES: list[Callable[[Path], Any]] = [
    lambda folder: Run(folder).summary(),
    lambda folder: Run(folder).model(),
    lambda folder: next(resume(folder).steps(), 0),
]
Damage = Callable[[Path, Any], str]


@pytest.fixture(scope="module")
def run(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    words = ["train", "parity", *SMALLEST, "train.average=ema(decay=0.9)", "--out", "run"]
    assert forks.run("torture.works:verb", folder, words=words).code == 0
    assert len(checkpoint.steps_in(folder / "run" / "checkpoints")) == 2
    return folder / "run"


def same(one: Checkpoint, other: Checkpoint) -> bool:
    tensors = [(getattr(one, name), getattr(other, name)) for name in ("weights", "moments", "last", "task_state")]
    equal = all(a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in tensors)
    return equal and one.progress == other.progress


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Callable[[], Path]:
    """A fresh copy of the run, without its results: it can be resumed."""

    def make() -> Path:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(run, tmp_path / "copy" / "run", ignore=shutil.ignore_patterns("tensorboard", "results.json"))
        return tmp_path / "copy" / "run"

    return make


def is_detected(damage: Damage, random: Any, copy: Callable[[], Path], tally: Tally) -> None:
    folder = copy()
    checkpoints = folder / "checkpoints"
    newest, before = checkpoint.steps_in(checkpoints)
    expected = checkpoint.read(checkpoints, before)
    did = damage(checkpoint.folder_of(checkpoints, newest), random)
    found = attempt(tally, did, lambda: checkpoint.newest(checkpoints))
    tally.add("damages")
    if found is not None:
        used, messages = found
        if used is None or not same(used, expected):
            tally.found("wrong loads", f"{did}: loaded step {used and used.step}")
        elif len(messages) != 1 or f"{newest:08d}" not in messages[0]:
            tally.found("wrong loads", f"{did}: said {messages}")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_detected(damage: Damage, copy: Callable[[], Path], tally: Tally) -> None:
    random = chance("damage", damage.__name__)
    for _ in range(count(200, 8)):
        is_detected(damage, random, copy, tally)


@pytest.mark.parametrize("damage", SPECIAL, ids=lambda damage: damage.__name__)
def test_what_is_no_plain_file_is_refused(damage: Damage, copy: Callable[[], Path], tally: Tally) -> None:
    random = chance("special", damage.__name__)
    for _ in range(count(60, 6)):
        is_detected(damage, random, copy, tally)


@pytest.mark.parametrize("damage", [junk_in_json, flip])
def test_with_hashes_that_fit_it_is_refused_or_read(damage: Damage, copy: Callable[[], Path], tally: Tally) -> None:
    """Hashes guard against accidents, not against people: what fits them is no reason to crash."""
    random = chance("hashes", damage.__name__)
    for _ in range(count(100, 10)):
        folder = copy()
        checkpoints = folder / "checkpoints"
        newest = checkpoint.folder_of(checkpoints, checkpoint.steps_in(checkpoints)[0])
        did = damage(newest, random)
        if damage is flip:
            remake_hashes(newest)
        for use in USES:
            attempt(tally, did, partial(use, folder), seconds=10)
        tally.add("damages")
