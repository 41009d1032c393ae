"""The scripts for several machines: two of them on this one."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headway.runs.run import Run

SCRIPTS = Path(__file__).parents[2] / "docs" / "scripts"
SMALL = [
    *("data.examples=60", "data.tests=20", "model.layers=1", "model.width=8", "model.heads=2", "train.steps=4"),
    *("train.batch_size=8", "train.evaluate_every=2", "train.device=cpu", "train.grains=2"),
]


@pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.iterdir()))
def test_a_script_is_correct_shell(script: str) -> None:
    """By the shell itself, and by ShellCheck where it is installed."""
    subprocess.run(["bash", "-n", SCRIPTS / script], check=True)
    assert "set -euo pipefail" in (SCRIPTS / script).read_text().splitlines()
    if linter := shutil.which("shellcheck"):
        subprocess.run([linter, SCRIPTS / script], check=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


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
