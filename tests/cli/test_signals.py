"""Ctrl-C and SIGTERM outside of the training loop: one line, the exit code of the signal, and nothing half-written."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from conftest import Outcome
from headway import recipes
from headway.runs.fit import Fit, start

PLACES = {  # what the command line is doing when the signal arrives, and what is left to do then
    "in Python": "time.sleep(60)",
    "in a library that turns it into its own error": "try:\n  time.sleep(60)\nexcept BaseException: raise RuntimeError",
    "in code that was made at run time": "exec('time.sleep(60)')",
    "where Python ignores errors": "class It:\n  def __del__(self): time.sleep(60)\nIt()",
    "in compiled code": "hashlib.pbkdf2_hmac('sha512', b'', b'', 1 << 29)",
    "in an import": "import slow",
}
SCRIPT = """
import hashlib, sys, time, types
import headway, headway.__main__
def work():
    print("ready", flush=True)
    {body}
    sys.exit(3)
def main():
    from click import Abort
    from headway.config import signals
    try:
        work()
    except (Abort, KeyboardInterrupt):
        signals.exit_stopped()
headway.cli = types.SimpleNamespace(main=main)
headway.__main__.main()
"""


def working(body: str, folder: Path, **variables: str) -> "subprocess.Popen[str]":
    (folder / "slow.py").write_text("import os, time\ntry: time.sleep(60)\nfinally: os.abort()")  # as torch does
    (folder / "working.py").write_text(SCRIPT.format(body=body.replace("\n", "\n    ")))
    environment = {**os.environ, **variables, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{folder}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "working"], text=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", PLACES)
def test_a_signal_is_one_line_wherever_it_arrives(place: str, number: signal.Signals, tmp_path: Path) -> None:
    process = working(PLACES[place], tmp_path)
    process.send_signal(number)
    assert process.communicate(timeout=20) == ("", "headway: stopped\n")
    assert process.returncode == 128 + number


def test_the_first_signal_cleans_up_and_a_second_one_does_not_wait_for_it(tmp_path: Path) -> None:
    body = f"try:\n  time.sleep(60)\nfinally:\n  open({str(tmp_path / 'clean')!r}, 'w').close(); time.sleep(60)"
    process = working(body, tmp_path)
    process.terminate()
    while not (tmp_path / "clean").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "headway: stopped\n")
    assert process.returncode == 130


def test_one_of_several_processes_ignores_signals_and_ends_with_its_parent(tmp_path: Path) -> None:
    child = (
        "import os, sys, time; from headway.config import signals; signals.handle(); print(os.getpid(), flush=True);"
        "time.sleep(60)"
    )
    parent = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(60)"
    command = [sys.executable, "-c", parent, child]
    process = subprocess.Popen(command, env={**os.environ, "LOCAL_RANK": "1"}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    own = int(process.stdout.readline())
    os.kill(own, signal.SIGTERM)
    os.kill(own, signal.SIGINT)
    time.sleep(0.1)
    assert Path(f"/proc/{own}").exists()
    process.kill()
    process.wait()
    assert process.stdout.read() == ""  # both have closed it


def test_a_run_that_was_stopped_before_its_first_step_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(fit: Fit) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Fit, "make_loop", stop)
    with pytest.raises(KeyboardInterrupt):
        start(recipes.load("parity", ["data.examples=50", "data.tests=20"]), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_a_verb_that_is_stopped_is_one_line(
    error: type[BaseException], headway: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> None:
        raise error

    monkeypatch.setattr(recipes, "names", stopped)
    outcome = headway("recipes")
    assert (outcome.code, outcome.err.strip()) == (130, "headway: stopped")  # click ends the line of a ^C
