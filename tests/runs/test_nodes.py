"""The scripts for several machines: two of them on this one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway import recipes
from headway.runs.fit import start
from headway.runs.run import Run

SCRIPTS = Path(__file__).parents[2] / "docs" / "scripts"
SMALL = [
    *("data.examples=60", "data.tests=20", "model.layers=1", "model.width=8", "model.heads=2", "train.steps=4"),
    *("train.batch_size=8", "train.evaluate_every=2", "train.device=cpu", "train.grains=2"),
]


@pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.iterdir()))
def test_a_script_is_correct_shell(script: str) -> None:
    """By the shell itself, and by ShellCheck."""
    subprocess.run(["bash", "-n", SCRIPTS / script], check=True)
    assert "set -euo pipefail" in (SCRIPTS / script).read_text().splitlines()
    linter = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if linter is None:
        pytest.skip("ShellCheck is not installed")
    subprocess.run([linter, "--enable=all", "--exclude=SC2250,SC2312", SCRIPTS / script], check=True)


def test_a_machine_that_cannot_reach_the_first_says_so_in_one_line() -> None:
    where = {"FIRST": "127.0.0.1", "PORT": str(free_port()), "NODES": "2", "NODE": "1", "PATIENCE": "1"}
    ended = subprocess.run(
        [SCRIPTS / "torchrun.sh", "parity"], env={**os.environ, **where}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    line = (
        f"headway: machine 1 cannot reach the first one, 127.0.0.1 port {where['PORT']}: start it, or open the port\n"
    )
    assert ended.stderr == line


SPY = """
import os, sys
from headway.__main__ import main
from headway.data import cache
new_folder = cache.new_folder
def noted(path, *given, **options):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{os.environ['RANK']} {path}\\n")
    return new_folder(path, *given, **options)
cache.new_folder = noted
main()
"""


def test_data_are_prepared_once_on_a_machine(tmp_path: Path) -> None:
    """By the first of its processes; here all of them find an empty cache at the same time."""
    text, notes, script = tmp_path / "text.txt", tmp_path / "notes", tmp_path / "spy.py"
    text.write_text("a few words that a small model may read, and then some more of them\n" * 400)
    script.write_text(SPY)
    data = [f"data.train={text}", f"data.validation={text}", "data.window=16", "data.vocab_size=270"]
    more = ["model.layers=1", "model.width=8", "model.heads=2", "train.steps=4", "train.device=cpu", "train.threads=1"]
    fit = start(recipes.load("language", [*data, *more]), tmp_path / "run")
    next(fit.steps())
    environment = {**os.environ, "HEADWAY_CACHE": str(tmp_path / "cache"), "NOTES": str(notes), "OMP_NUM_THREADS": "1"}
    words = ["--standalone", "--nproc-per-node=2", str(script), "resume", str(fit.run.folder)]
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    ended = subprocess.run(
        [*torchrun, *words, "train.parallel=data:2"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    made = [line.split() for line in notes.read_text().splitlines()]
    assert {rank for rank, _ in made} == {"0"}
    assert len({path for _, path in made}) == len(made) > 0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def children_of(process: "subprocess.Popen[str]") -> list[int]:
    return [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_two_machines_train_one_run(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shared = {"FIRST": "127.0.0.1", "PORT": str(free_port()), "NODES": "2", "PER_NODE": "1", "RESTARTS": "1"}
    words = [str(SCRIPTS / "torchrun.sh"), "parity", *SMALL, "--out", str(tmp_path / "run")]
    machines = [
        subprocess.Popen(
            words,
            env={**os.environ, **shared, "PATH": path, "NODE": str(node), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]
    outputs = [machine.communicate(timeout=180)[0] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], outputs
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    (segment,) = Run(tmp_path / "run").about["segments"]
    assert (segment["parallel"], segment["nodes"]) == ("data:2", 2)
    assert Run(tmp_path / "run").results["steps"] == 4


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_run_whose_process_dies_goes_on_by_itself(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shared = {"FIRST": "127.0.0.1", "PORT": str(free_port()), "NODES": "1", "NODE": "0", "PER_NODE": "2"}
    more = ["train.steps=60", "train.checkpoint_every=5", "train.log_every=1", "--out", str(tmp_path / "run")]
    launcher = subprocess.Popen(
        [str(SCRIPTS / "torchrun.sh"), "parity", *SMALL, *more],
        env={**os.environ, **shared, "PATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and len(metrics.read_text().splitlines()) > 7):
        assert launcher.poll() is None
        time.sleep(0.005)
    os.kill(children_of(launcher)[-1], signal.SIGKILL)
    output, _ = launcher.communicate(timeout=240)
    assert launcher.returncode == 0, output
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    segments = Run(tmp_path / "run").about["segments"]
    assert len(segments) > 1
    assert segments[1]["after_step"] >= 5
    assert Run(tmp_path / "run").results["steps"] == 60
