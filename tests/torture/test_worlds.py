"""Kill -9 of one of several processes at random instants, gone on with by another number of them, again and again."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from exact import EXACT, children_of, command, contents, losses
from headway import recipes
from headway.runs.fit import start
from headway.runs.run import Run
from torture.harness import SHARE, Tally, chance, count

WORLDS = (1, 2, 4)  # train.grains=4 allows them
LONGEST = 15.0  # seconds until a kill


@pytest.mark.skipif(not SHARE, reason="tests/runs/test_segments.py has two kills")
def test_killed_in_one_world_and_resumed_in_another(tmp_path: Path, tally: Tally) -> None:
    alone = start(recipes.load("parity", EXACT), tmp_path / "alone")
    list(alone.steps())
    random, kills, rounds = chance("worlds"), 0, 0
    while kills < count(40, 0):
        folder, rounds = tmp_path / f"round-{rounds}", rounds + 1
        while not (folder.exists() and Run(folder).is_done):
            world = f"train.parallel=data:{random.choice(WORLDS)}"
            going_on = ["resume", str(folder), world]
            words = (
                going_on
                if (folder / "recipe.toml").exists()
                else ["train", "parity", *EXACT, world, "--out", str(folder)]
            )
            process = subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(random.uniform(0, LONGEST))
            if process.poll() is None:
                os.kill(int(random.choice([process.pid, *children_of(process)])), signal.SIGKILL)
                kills += 1
                tally.add("kills")
            try:
                _, err = process.communicate(timeout=90)
            except subprocess.TimeoutExpired:
                process.kill()
                tally.found("hangs", f"round {rounds}: after a kill with {world}")
                return
            if "Traceback" in err:
                tally.found("tracebacks", f"round {rounds}: {err[-300:]}")
        tally.add("runs")
        if contents(Run(folder)) != contents(alone.run) or losses(Run(folder)) != losses(alone.run):
            tally.found("wrong loads", f"round {rounds}: other bits than the run that nothing disturbed")
