"""A run that is stopped here and goes on elsewhere: the same bits, and a record of where it was."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import Outcome
from exact import EXACT, children_of, command, contents, losses
from headway import recipes
from headway.config.errors import BadSetting
from headway.runs.fit import resume, start
from headway.runs.run import Run
from headway.runs.segments import Lost, lost


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_two_processes_one_of_them_killed_and_resumed_by_one_end_with_the_same_bits(tmp_path: Path) -> None:
    alone = start(recipes.load("parity", EXACT), tmp_path / "alone")
    list(alone.steps())

    folder, chance = tmp_path / "run", random.Random(7)
    words = ["train", "parity", *EXACT, "train.parallel=data:2", "--out", str(folder)]
    two = subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    metrics = folder / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size):
        assert two.poll() is None
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.2))
    began = time.monotonic()
    os.kill(children_of(two)[0], signal.SIGKILL)
    _, err = two.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert two.returncode == 1
    (line,) = err.splitlines()
    assert line.startswith("headway: one of the 2 processes has died; ")
    before = Run(folder).newest()[0]
    assert 0 < (before.step if before is not None else 1) < 90

    here = resume(folder, overrides=["train.processes=1"])
    steps = here.steps()
    for _ in range(7):
        next(steps)
    steps.close()  # without saving: as if it were killed
    subprocess.run(command("resume", str(folder)), check=True, capture_output=True, timeout=120)

    assert contents(Run(folder)) == contents(alone.run)
    assert losses(Run(folder)) == losses(alone.run)
    segments = Run(folder).about["segments"]
    assert [each["parallel"] for each in segments] == ["data:2", "data:1", "data:2"]
    assert segments[0]["after_step"] == 0 < segments[2]["after_step"]
    assert Run(folder).recipe.train.parallel == "data:2"


def test_a_run_goes_on_with_its_model_cut_in_four(tmp_path: Path) -> None:
    """From whole weights and moments to shares of them, and back to whole ones, which are tested."""
    inexact = ("train.grains", "train.steps", "model.dropout", "model.attention_dropout", "train.patience")
    kept = [word for word in EXACT if not word.startswith(inexact)]
    words = [*kept, "train.steps=12", "train.threads=1", "model.feedforward=geglu"]
    alone = start(recipes.load("parity", words), tmp_path / "alone")
    list(alone.steps())

    broken = start(recipes.load("parity", words), tmp_path / "run")
    steps = broken.steps()
    for _ in range(7):
        next(steps)
    steps.close()
    moved = command("resume", str(tmp_path / "run"), "train.parallel=shard:2,tensor:2")
    subprocess.run(moved, check=True, capture_output=True, timeout=120)

    run = Run(tmp_path / "run")
    assert [each["parallel"] for each in run.about["segments"]] == ["data:1", "shard:2,tensor:2"]
    for name in ("model", "optimizer", "last"):
        own, other = (load_file(each.checkpoints / f"step-00000012/{name}.safetensors") for each in (run, alone.run))
        torch.testing.assert_close(own, other, atol=1e-7, rtol=1e-3)
    for name, metrics in run.results["test"].items():
        assert metrics == pytest.approx(alone.run.results["test"][name], abs=1e-5)


def test_only_settings_that_say_where_and_when_may_change(tmp_path: Path, headway: Callable[..., Outcome]) -> None:
    fit = start(recipes.load("parity", [*EXACT, "train.steps=2"]), tmp_path / "run")
    next(fit.steps())
    refusals = {
        "train.learning_rate=1": "train.learning_rate: a run that is resumed keeps its settings; only where it runs (",
        "train.lr=1": "train.lr: no such key; did you mean 'train.learning_rate'?",
        "train.steps=0": "train.steps: 0 is too small",
        "train.parallel=data:3": "3 processes cannot have the same number of 4 groups of rows",
        "train.nodes=2": "train.nodes: 1 processes cannot be shared out among 2 machines",
        "train.threads": "'train.threads' is not of the form key=value",
    }
    for setting, message in refusals.items():
        outcome = headway("resume", str(tmp_path / "run"), setting)
        assert outcome.code == 2
        assert message in outcome.err
        assert len(outcome.err.splitlines()) == 1
    with pytest.raises(BadSetting, match="keeps its settings"):
        resume(tmp_path / "run", overrides=["model.width=8"])
    outcome = headway("resume", str(tmp_path / "run"), "train.threads=2")
    assert outcome.code == 0
    assert Run(tmp_path / "run").about["segments"][-1]["threads"] == 2
    assert Run(tmp_path / "run").recipe.train.threads == 1
    with pytest.raises(BadSetting, match=r"train\.steps: 1 is too small: .* has done 2 steps already"):
        resume(tmp_path / "run", overrides=["train.steps=1"])


def test_a_run_that_is_done_goes_on_to_more_steps(tmp_path: Path, headway: Callable[..., Outcome]) -> None:
    """With the same bits as if it had been meant to from the start, where the schedule does not know of the end."""
    words = [*EXACT, "train.schedule=constant", "train.patience=none", "train.average=none"]
    whole = start(recipes.load("parity", [*words, "train.steps=20"]), tmp_path / "whole")
    list(whole.steps())
    first = start(recipes.load("parity", [*words, "train.steps=10"]), tmp_path / "run")
    list(first.steps())
    outcome = headway("resume", str(tmp_path / "run"), "train.steps=20", "train.log_every=2")
    assert outcome.code == 0
    assert "the run had ended (all steps are done) and continues from step 10; the learning rate is" in outcome.out
    run = Run(tmp_path / "run")
    assert contents(run) == contents(whole.run)
    assert run.results["steps"] == run.recipe.train.steps == 20
    assert run.recipe.train.log_every == 2
    assert json.loads((run.folder / "results-of-step-10.json").read_text())["steps"] == 10
    assert [each["until"]["steps"] for each in run.about["segments"]] == [10, 20]
    assert headway("resume", str(tmp_path / "run")).code == 0
    assert len(Run(tmp_path / "run").about["segments"]) == 2


def test_a_run_that_lost_patience_or_time_goes_on_with_more(tmp_path: Path) -> None:
    words = [word for word in EXACT if not word.startswith(("train.patience", "train.evaluate_every"))]
    words += ["train.learning_rate=0", "train.evaluate_every=1", "train.patience=2", "train.average=none"]
    impatient = start(recipes.load("parity", words), tmp_path / "run")
    assert len(list(impatient.steps())) == 3
    more = resume(tmp_path / "run", overrides=["train.patience=4"])
    assert [step.number for step in more.steps()] == [4, 5]
    late = start(recipes.load("parity", [*words, "train.patience=none", "train.minutes=0.002"]), tmp_path / "late")
    steps = len(list(late.steps()))
    assert late.progress.ended == "0.002 minutes are over"
    assert not list(resume(tmp_path / "late").steps())
    longer = resume(tmp_path / "late", overrides=["train.minutes=none", f"train.steps={steps + 3}"])
    assert len(list(longer.steps())) == 3


def test_a_run_without_grains_says_that_another_world_differs(tmp_path: Path) -> None:
    inexact = [word for word in EXACT if not word.startswith("train.grains")]
    fit = start(recipes.load("parity", [*inexact, "train.steps=3", "train.checkpoint_every=1"]), tmp_path / "run")
    steps = fit.steps()
    next(steps)
    steps.close()
    path = tmp_path / "run" / "about.json"
    about = json.loads(path.read_text())
    about["segments"][-1]["parallel"] = "data:2"
    path.write_text(json.dumps(about))
    assert any("the run had data:2 and continues with data:1" in note for note in resume(tmp_path / "run").notes)


def test_only_errors_about_other_processes_are_taken_for_a_death(tmp_path: Path) -> None:
    fit = start(recipes.load("parity", [*EXACT, "train.steps=2"]), tmp_path / "run")
    gone = RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]")
    assert isinstance(lost(fit.run, gone, 2), Lost)
    assert "there is no checkpoint yet" in str(lost(fit.run, gone, 2))
    assert lost(fit.run, gone, 1) is None
    assert lost(fit.run, RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo"), 2) is None
    assert lost(fit.run, RuntimeError("mat1 and mat2 shapes cannot be multiplied"), 2) is None
