"""Loss of power after every file operation: what was not synced is gone, and the run still goes on to the same bits."""

import json
import shutil
from pathlib import Path

import pytest

from headway.training.checkpoint import steps_in
from torture.disk import Disk, fingerprint
from torture.harness import SHARE, Forks, Tally, chance, count
from torture.test_kills import compare, finish, unbroken

NAMES = ["parity", "classify", "language-lstm"] if SHARE else ["classify"]


@pytest.mark.parametrize("name", NAMES)
def test_power_is_lost(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    work, expected, _ = unbroken(name, forks, bases)
    folder = tmp_path / "recorded"
    assert forks.run("torture.filelayer:recorded_verb", folder, words=list(work.begin)).code == 0
    log = json.loads((folder / "operations.json").read_text())
    saved, step = dict[int, int](), 0
    for number, (kind, path, to, _) in enumerate(log):
        if kind == "rename" and Path(to).name.startswith("step-"):
            step = int(Path(to).name[5:])
        elif kind == "fsync" and path == "run/checkpoints":
            saved[number] = step
    assert len(saved) >= 4, "there were checkpoints, and their names were synced"
    chosen = set(chance("power", name).choice(2 * len(log), min(count(300, 8), 2 * len(log)), replace=False).tolist())
    disk, seen = Disk(), set()
    for number, operation in enumerate(log):
        for names_are_kept in (False, True):
            if 2 * number + names_are_kept not in chosen:
                continue
            after = tmp_path / "after"
            disk.after_loss(after, names_are_kept)
            state = fingerprint(after)
            if state not in seen:
                seen.add(state)
                what = f"{name}, before operation {number}, {operation[:3]}, names kept: {names_are_kept}"
                promised = max((step for at, step in saved.items() if at < number), default=0)
                if max(steps_in(after / "run" / "checkpoints"), default=0) < promised:
                    tally.found("wrong loads", f"{what}: the checkpoint of step {promised} was lost")
                finish(work, after, forks, tally)
                compare(expected, after, what, tally)
            tally.add("losses of power")
            shutil.rmtree(after)
        disk.do(*operation)
