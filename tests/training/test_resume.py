"""Resuming is exact: a run that was killed ends with the very bits of one that was left alone."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway import recipes
from headway.config.errors import Problem
from headway.runs.fit import resume, start
from headway.runs.run import Run

# The middle of an epoch, dropout, accumulation, a schedule, two optimizers, early stopping: everything that remembers.
OVERRIDES = [
    "data.examples=500",
    "data.tests=100",
    "data.shortest=6",
    "model.width=16",
    "model.heads=2",
    "model.dropout=0.1",
    "model.attention_dropout=0.1",
    "train.steps=160",
    "train.batch_size=48",
    "train.accumulate=3",
    "train.schedule=cosine",
    "train.patience=30",
    "train.evaluate_every=7",
    "train.checkpoint_every=10",
    "train.log_every=5",
]


def command(*overrides: str) -> list[str]:
    return [sys.executable, "-m", "headway", *overrides]


def files_of_result(run: Run) -> dict[str, bytes]:
    """The bytes of the last and the best checkpoint's weights and moments."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in run.checkpoints.rglob("*.safetensors")
        if int(path.parent.name[5:]) in (run.results["steps"], run.results["weights_of_step"])
    }


def records(run: Run) -> list[str]:
    """The lines of metrics.jsonl without what a clock decides."""
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    return [re.sub(r', "(tokens_per_second|seconds)": [\d.]+', "", line) for line in lines]


@pytest.mark.parametrize(("optimizer", "average"), [("adamw", "none"), ("muon", "ema(decay=0.9)")])
def test_killed_at_any_instant_it_ends_as_if_left_alone(optimizer: str, average: str, tmp_path: Path) -> None:
    overrides = [*OVERRIDES, f"train.optimizer={optimizer}", f"train.average={average}"]
    alone = start(recipes.load("parity", overrides), tmp_path / "alone")
    list(alone.steps())

    folder = tmp_path / "killed"
    chance = random.Random(optimizer)
    kills = 0
    verb = command("train", "parity", *overrides, "--out", str(folder))
    while kills < 3:
        process = subprocess.Popen(verb, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        metrics = folder / "metrics.jsonl"
        before = metrics.stat().st_mtime if metrics.exists() else 0.0
        while process.poll() is None and (not metrics.exists() or metrics.stat().st_mtime == before):
            time.sleep(0.005)  # until it trains
        time.sleep(chance.uniform(0, 0.4))
        process.kill()
        code = process.wait()
        assert code in (-signal.SIGKILL, 0)
        kills += code == -signal.SIGKILL
        assert folder.exists()
        if Run(folder).is_done:
            break
        verb = command("resume", str(folder))
    subprocess.run(command("resume", str(folder)), check=True, capture_output=True, timeout=120)

    assert kills >= 1
    assert files_of_result(Run(folder)) == files_of_result(alone.run)
    assert records(Run(folder)) == records(alone.run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_save_and_say_how_to_resume(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    overrides = [*OVERRIDES, "train.steps=100000", "train.checkpoint_every=100000", "train.patience=none"]
    process = subprocess.Popen(
        command("train", "parity", *overrides, "--out", str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err == ""
    saved = Run(folder).newest()[0]
    assert saved is not None
    assert f"stopped at step {saved.step:,} and saved" in out
    assert out.splitlines()[-1] == f"next: headway resume {folder}"


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    recipe = recipes.load("parity", [*OVERRIDES, "train.steps=30"])
    alone = start(recipe, tmp_path / "alone")
    list(alone.steps())
    broken = start(recipe, tmp_path / "broken")
    for step in broken.steps():
        if step.number == 17:
            os.kill(os.getpid(), signal.SIGTERM)
    assert broken.interrupted == signal.SIGTERM
    assert not broken.run.is_done
    again = resume(tmp_path / "broken")
    assert next(again.steps()).number == 19  # the step after the signal was taken too, and saved
    for _ in resume(tmp_path / "broken").steps():
        pass
    assert files_of_result(Run(tmp_path / "broken")) == files_of_result(alone.run)


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    session = start(recipes.load("parity", OVERRIDES), tmp_path / "run")
    steps = session.steps()
    next(steps)
    with pytest.raises(Problem, match="is being trained by another process"):
        resume(tmp_path / "run")
    steps.close()
    next(resume(tmp_path / "run").steps())


def test_a_run_that_is_done_stays_as_it_is(tmp_path: Path) -> None:
    session = start(recipes.load("parity", [*OVERRIDES, "train.steps=5"]), tmp_path / "run")
    list(session.steps())
    before = files_of_result(session.run)
    assert list(resume(tmp_path / "run").steps()) == []
    assert files_of_result(session.run) == before
