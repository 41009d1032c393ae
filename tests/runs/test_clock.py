"""A run with a time limit ends when the time is over, with its schedule at the end, also after a kill."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import pytest
import torch

from headway import recipes
from headway.api import progress
from headway.api.progress import Line
from headway.config.recipe import TrainSpec
from headway.runs import clock as clocks
from headway.runs.clock import Clock
from headway.runs.fit import resume, start
from headway.runs.stopping import keeps_best, metric_of, remember
from headway.training.checkpoint import Progress
from headway.training.loop import Step
from headway.training.schedules import SCHEDULES, Schedule

MANY = "train.steps=1000000"
TINY = [
    *("data.examples=200", "data.tests=40", "data.shortest=6", "data.length=12", "model.width=8", "model.heads=2"),
    *("model.layers=1", "train.device=cpu", "train.threads=1", "train.patience=none", "train.log_every=1"),
    *("train.evaluate_every=50", "train.checkpoint_every=40", "model.dropout=0.1", MANY),
]


def test_a_time_limit_ends_a_run_with_the_schedule_at_its_end(tmp_path: Path) -> None:
    fit = start(
        recipes.load("parity", [*TINY, "train.minutes=0.05", "train.average=last", "train.warmup=20"]), tmp_path / "run"
    )
    began = perf_counter()
    steps = list(fit.steps())
    assert 2 < perf_counter() - began < 7
    assert fit.run.results["seconds"] == pytest.approx(3, abs=1)
    assert fit.run.results["ended"] == "0.05 minutes are over"
    rates = [step.learning_rate / fit.spec.learning_rate for step in steps]
    assert rates[-1] == 0
    assert max(rates) > 0.3 > rates[int(0.97 * len(rates))]
    assert steps[-1].validation is not None
    assert fit.run.newest()[0] is not None


def test_a_run_that_was_killed_repeats_its_steps_and_keeps_the_limit(tmp_path: Path) -> None:
    fit = start(recipes.load("parity", [*TINY, "train.minutes=0.04"]), tmp_path / "run")
    before = {}
    for step in fit.steps():
        before[step.number] = (step.loss, step.learning_rate)
        if step.number == 70:  # what a kill leaves: a checkpoint at step 40, and a line that is cut off
            shutil.copytree(tmp_path / "run", tmp_path / "killed")
            spent = fit.clock.seconds
    with (tmp_path / "killed" / "clock.jsonl").open("a") as file:
        file.write('{"step": 7')
    again = resume(tmp_path / "killed")
    assert again.progress.step == 40
    after = {step.number: (step.loss, step.learning_rate) for step in again.steps()}
    shared = {number: after[number] for number in range(41, 71)}
    assert shared == {number: before[number] for number in shared}
    assert after[max(after)][1] == 0
    seconds = again.run.results["seconds"]
    assert seconds == pytest.approx(2.4, abs=1)
    assert seconds > spent
    assert again.run.results["ended"] == "0.04 minutes are over"


class Fake:
    """A machine that is twice as slow in the second half."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_clock_on_a_machine_that_gets_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    monkeypatch.setattr(clocks, "perf_counter", fake)
    monkeypatch.setattr(progress, "perf_counter", fake)
    spec = TrainSpec(minutes=2, steps=10**6, warmup=100)
    clock, schedule = Clock(spec, tmp_path, evaluated=30), Schedule(spec)
    clock.start(0)
    factors, number = [], 0
    line = Line(spec.steps, 0, clock)
    while not clock.is_last(number):
        number += 1
        factors.append(schedule(number, clock.steps_at(number)))
        took = 0.2 if fake.now < 60 else 0.4
        fake.now += took
        clock.saw(number, took)
        if number % 100 == 0 or clock.is_last(number):
            fake.now += 3
            clock.evaluated_in(3)
        if number == 100:
            line.see(Step(number, 0.5, 1e-3, 1.0, 100, took))
            assert "step 100/about 5" in line.text()
            assert "1:3" in line.text()  # left, in minutes and seconds
    assert 115 < fake.now < 123
    assert factors[-1] == 0
    assert max(factors) == pytest.approx(1, abs=0.3)
    assert all(later <= before + 0.02 for before, later in pairwise(factors[110:]))
    assert clock.seconds_left == max(120 - fake.now, 0)
    assert [json.loads(text)["step"] for text in (tmp_path / "clock.jsonl").read_text().splitlines() if text] == [
        *range(1, number + 1)
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_in_fewer_steps_is_that_of_so_many(name: str) -> None:
    """With a warm-up of a quarter at most."""
    spec = TrainSpec(schedule=name, steps=1000, warmup=20)
    own, fewer = Schedule(spec), Schedule(TrainSpec(schedule=name, steps=200, warmup=20))
    assert [own(step, 200) for step in range(1, 201)] == [fewer(step) for step in range(1, 201)]
    assert [own(step) for step in range(5)] == [own(step, 1000) for step in range(5)]
    assert Schedule(TrainSpec(schedule="linear", steps=1000, warmup=500))(40, 40) == 0


# --- which weights are kept


def measured(accuracy: float, loss: float) -> dict[str, dict[str, float]]:
    return {"validation": {"accuracy": accuracy, "loss": loss}}


def test_a_metric_without_patience_keeps_the_best_weights(tmp_path: Path) -> None:
    words = [*TINY, "train.steps=12", "train.evaluate_every=1", "train.learning_rate=0.1", "train.stop_on=accuracy"]
    fit = start(recipes.load("parity", words), tmp_path / "run")
    curve = {}
    for step in fit.steps():
        assert step.validation is not None
        curve[step.number] = (
            min(each["accuracy"] for each in step.validation.values()),
            -max(each["loss"] for each in step.validation.values()),
        )
    best = max(curve, key=lambda number: curve[number])
    assert fit.run.results["steps"] == 12
    assert fit.run.results["weights_of_step"] == fit.run.final_checkpoint().step == best


def test_the_default_for_classes_is_accuracy_and_goes_on_while_the_loss_gains() -> None:
    spec = TrainSpec(patience=2)
    assert keeps_best(spec)
    assert not keeps_best(TrainSpec())
    assert metric_of(recipes.task("parity", ["train.patience=3"])) == "accuracy"
    assert metric_of(recipes.task("language")) == "loss"
    reached, seen = Progress(), []
    for step, (accuracy, loss) in enumerate([(0.5, 0.9), (0.5, 0.8), (0.8, 0.7), (0.79, 0.6), (0.7, 0.7), (0.8, 0.65)]):
        reached = remember(Progress(**{**vars(reached), "step": step}), measured(accuracy, loss), spec, "accuracy")
        seen.append((reached.best_step, reached.stale))
    assert seen == [(0, 0), (1, 0), (2, 0), (2, 0), (2, 1), (5, 0)]


def test_a_break_before_the_first_checkpoint_loses_nothing(tmp_path: Path) -> None:
    words = [*TINY, "train.steps=30", "train.checkpoint_every=1000"]
    whole = start(recipes.load("parity", words), tmp_path / "whole")
    list(whole.steps())
    fit = start(recipes.load("parity", words), tmp_path / "run")
    for step in fit:
        if step.number == 7:
            break
    saved, _ = fit.run.newest()
    assert saved is not None
    assert saved.step == 7
    again = resume(tmp_path / "run")
    assert [step.number for step in again] == list(range(8, 31))
    own, other = (each.run.final_checkpoint().weights for each in (again, whole))
    assert all(torch.equal(own[name], other[name]) for name in own)
    for _ in start(recipes.load("parity", words), tmp_path / "gone"):
        shutil.rmtree(tmp_path / "gone")
        break
    assert not (tmp_path / "gone").exists()
