"""The training loop: exact accumulation, updates by hand, and a stop with words when the loss is not finite."""

import json
import math
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.summary.writer.event_file_writer import _AsyncWriterThread
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from headway import recipes
from headway.config.errors import Problem
from headway.config.parts import bind
from headway.data.samplers import ExampleSampler
from headway.runs.fit import resume, start
from headway.runs.stopping import remember
from headway.training.average import AVERAGES, Average
from headway.training.checkpoint import Progress
from headway.training.fabric import pick_device
from headway.training.finite import first_not_finite
from headway.training.loop import Loop
from headway.training.metrics_log import MetricsLog, read_records
from headway.training.muon import Muon
from headway.training.optimizers import OPTIMIZERS

TINY = [
    "data.examples=300",
    "data.tests=50",
    "data.shortest=5",
    "model.width=8",
    "model.heads=2",
    "train.steps=12",
    "train.warmup=4",
    "train.batch_size=32",
    "train.evaluate_every=6",
    "train.log_every=1",
]


def weights_after(folder: Path, *overrides: str) -> dict[str, torch.Tensor]:
    session = start(recipes.load("parity", [*TINY, *overrides]), folder)
    for _ in session.steps():
        pass
    return {name: weight.detach().clone() for name, weight in session.model.named_parameters()}


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], **tolerance: Any) -> None:
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], **tolerance)


def test_each_epoch_is_a_shuffle_of_its_own_and_a_function_of_the_seed() -> None:
    order = ExampleSampler(np.ones(100), 32, None, seed=3)
    epochs = [[order.rows_at(step) for step in range(4 * epoch + 1, 4 * epoch + 5)] for epoch in range(2)]
    for epoch in epochs:
        assert [len(rows) for rows in epoch] == [32, 32, 32, 4]
        assert sorted(np.concatenate(epoch)) == list(range(100))
    assert not np.array_equal(np.concatenate(epochs[0]), np.concatenate(epochs[1]))
    assert np.array_equal(order.rows_at(6), epochs[1][1])
    assert not np.array_equal(ExampleSampler(np.ones(100), 32, None, seed=4).rows_at(6), epochs[1][1])


@pytest.mark.parametrize("parts", [2, 3, 7, 100])
def test_accumulation_is_exact(parts: int, tmp_path: Path) -> None:
    """Strings of several lengths, parts of several sizes, clipping, and a last batch that is smaller."""
    whole = weights_after(tmp_path / "whole")
    split = weights_after(tmp_path / "split", f"train.accumulate={parts}")
    assert_same(whole, split, atol=2e-5, rtol=2e-4)


def test_clipping_shortens_the_whole_gradient_at_once(tmp_path: Path) -> None:
    """Muon comes with a second optimizer; together their weights have one gradient."""
    overrides = ["train.optimizer=muon", "train.grad_clip=0.01"]
    loop: Any = start(recipes.load("parity", [*TINY, *overrides]), tmp_path / "run").loop
    loop.backward(1, loop.batch_at(1))
    before = [weight.grad.clone() for weight in loop.model.parameters() if weight.grad is not None]
    length = math.sqrt(sum(gradient.double().square().sum().item() for gradient in before))
    assert length > 0.01
    assert loop.gradient_norm().item() == pytest.approx(length, rel=1e-5)
    loop.clip(length)
    after = [weight.grad for weight in loop.model.parameters() if weight.grad is not None]
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new, old * (0.01 / length), rtol=1e-3, atol=1e-8)


def test_a_step_by_hand(tmp_path: Path) -> None:
    """Plain SGD: the weights move by the rate of the schedule times the gradient of the mean loss."""
    overrides = [
        "train.device=cpu",
        "train.optimizer=sgd(momentum=0)",
        "train.weight_decay=0",
        "train.grad_clip=none",
        "train.learning_rate=0.5",
    ]
    session = start(recipes.load("parity", [*TINY, *overrides]), tmp_path / "run")
    before = {name: weight.detach().clone() for name, weight in session.model.named_parameters()}
    batch = session.batch_at(1)
    loss = session.task.loss(session.model, batch).mean
    gradients = torch.autograd.grad(loss, list(session.model.parameters()))
    step = next(session.steps())
    assert step.loss == pytest.approx(loss.item(), rel=1e-6)
    assert step.learning_rate == 0.5 * 1 / 4
    assert step.tokens == batch.tokens
    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
    assert step.gradient_norm == pytest.approx(norm, rel=1e-5)
    for (name, weight), gradient in zip(session.model.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(weight, before[name] - 0.125 * gradient, atol=1e-6, rtol=1e-5)


def test_clipping_shortens_a_long_gradient_only(tmp_path: Path) -> None:
    overrides = ["train.optimizer=sgd(momentum=0)", "train.weight_decay=0", "train.schedule=constant"]
    moved = {}
    for clip in ("none", "0.001", "1000"):
        session = start(recipes.load("parity", [*TINY, *overrides, f"train.grad_clip={clip}"]), tmp_path / clip)
        before = torch.cat([weight.detach().flatten().clone() for weight in session.model.parameters()])
        step = next(session.steps())
        after = torch.cat([weight.detach().flatten() for weight in session.model.parameters()])
        moved[clip] = (after - before).norm().item() / 1e-3
        assert step.gradient_norm == pytest.approx(moved["none"], rel=1e-3)
    assert moved["1000"] == pytest.approx(moved["none"], rel=1e-3)
    assert moved["0.001"] == pytest.approx(0.001, rel=1e-2)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_learns(name: str, tmp_path: Path) -> None:
    rate = "0.1" if name == "sgd" else "0.005"
    overrides = [f"train.optimizer={name}", "train.steps=60", "train.schedule=constant", f"train.learning_rate={rate}"]
    session = start(
        recipes.load("parity", [*TINY, *overrides, "data.length=5", "train.batch_size=300"]), tmp_path / "run"
    )
    losses = [step.loss for step in session.steps()]
    assert losses[0] == pytest.approx(math.log(2), abs=1e-5)
    assert losses[-1] < 0.68


def test_muon_takes_the_matrices_and_adamw_the_rest() -> None:
    session_model = nn.ModuleDict({"body": nn.Linear(4, 4), "table": nn.Embedding(5, 4), "head": nn.Linear(4, 2)})
    matrices, rest = OPTIMIZERS["muon"](session_model, learning_rate=0.001, weight_decay=0.1)
    assert [group["params"] for group in matrices.param_groups] == [[session_model["body"].weight]]
    assert sum(len(group["params"]) for group in rest.param_groups) == 4
    assert matrices.param_groups[0]["lr"] == 0.02


def test_muon_is_torchs_a_shape_at_a_time() -> None:
    shapes = [(8, 4), (4, 8), (8, 4), (5, 5)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    optimizers = Muon(ours, 0.02, 0.1, 0.95), torch.optim.Muon(theirs, 0.02, 0.1, 0.95)
    for _ in range(4):
        for our, their in zip(ours, theirs, strict=True):
            our.grad = torch.randn_like(our)
            their.grad = our.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, atol=2e-3, rtol=2e-3)  # products in bf16


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("none", [1, 2, 3, 4, 5]),
        ("last(share=0.4)", [1, 2, 3, 4, 4.5]),
        ("ema(decay=0.4)", [0.9, 0.9 + 1.1 * 9 / 11, 2.7, 3.6, 4.5]),
    ],
)
def test_averages_by_hand(text: str, means: list[float]) -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    average = Average(model, bind(AVERAGES, text, "train.average", steps=5))
    for number, mean in enumerate(means, start=1):
        nn.init.constant_(model.weight, number)
        average.update(number)
        with average.applied():
            assert model.weight.item() == pytest.approx(mean, abs=1e-6)
        assert model.weight.item() == number


@pytest.mark.parametrize("name", AVERAGES)
def test_what_is_measured_and_kept_is_the_average(name: str, tmp_path: Path) -> None:
    session = start(recipes.load("parity", [*TINY, f"train.average={name}"]), tmp_path / "run")
    *_, last = session.steps()
    saved = session.run.final_checkpoint()
    assert last.validation is not None
    for name_of_set, data in session.splits.validation.items():
        measured = session.task.measure(session.run.model(), data)
        assert last.validation[name_of_set]["loss"] == pytest.approx(measured["loss"], abs=1e-6)
    assert bool(saved.last) == (name != "none")
    assert all(not torch.equal(weight, saved.weights[own]) for own, weight in saved.last.items())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weight_decay_leaves_biases_and_norms_alone(name: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    decayed = [
        weight
        for optimizer in OPTIMIZERS[name](model, learning_rate=0.001, weight_decay=0.1)
        for group in optimizer.param_groups
        if group["weight_decay"]
        for weight in group["params"]
    ]
    assert [weight is model[0].weight for weight in decayed] == [True]


def test_early_stopping_counts_evaluations_without_a_gain() -> None:
    spec = recipes.load("parity", ["train.stop_on=accuracy", "train.patience=2", "train.min_delta=0.01"]).train
    progress, seen = Progress(), []
    for step, value in enumerate([0.5, 0.6, 0.605, 0.65, 0.64, 0.655], start=1):
        measured = {"validation": {"accuracy": value, "loss": 1.0}}
        progress = remember(Progress(**{**vars(progress), "step": step}), measured, spec, "accuracy")
        seen.append((progress.best, progress.best_step, progress.stale))
    assert seen == [(0.5, 1, 0), (0.6, 2, 0), (0.6, 2, 1), (0.65, 4, 0), (0.65, 4, 1), (0.65, 4, 2)]


def test_early_stopping_keeps_and_tests_the_best_weights(tmp_path: Path) -> None:
    overrides = ["train.patience=2", "train.evaluate_every=1", "train.steps=200", "train.schedule=constant"]
    overrides.append("train.stop_on=loss")
    session = start(recipes.load("parity", [*TINY, *overrides, "train.learning_rate=0.1"]), tmp_path / "run")
    curve = {}
    for step in session.steps():
        assert step.validation is not None
        curve[step.number] = max(metrics["loss"] for metrics in step.validation.values())
    best = min(curve, key=lambda step: curve[step])
    assert session.progress.step == best + 2 < 200
    assert session.progress.ended == "no gain in loss for 2 evaluations"
    assert session.run.results["weights_of_step"] == session.run.final_checkpoint().step == best
    validation = session.splits.validation
    model = session.run.model()

    again = max(session.task.measure(model, data)["loss"] for data in validation.values())
    assert again == pytest.approx(curve[best], rel=1e-6)


def test_records_are_what_was_seen(tmp_path: Path) -> None:
    session = start(recipes.load("parity", TINY), tmp_path / "run")
    steps = {step.number: step for step in session.steps()}
    records = list(read_records(session.run.folder / "metrics.jsonl"))
    train = {record["step"]: record["train"]["loss"] for record in records if "train" in record}
    assert train == {number: step.loss for number, step in steps.items()}
    validation = {record["step"]: record["validation"] for record in records if "validation" in record}
    assert validation == {number: steps[number].validation for number in (6, 12)}


def test_tensorboard_has_the_same_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    session = start(recipes.load("parity", TINY), tmp_path / "run")
    losses = [step.loss for step in session.steps()]
    events = EventAccumulator(str(session.run.folder / "tensorboard")).Reload()
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(losses)
    assert [event.step for event in events.Scalars("validation/uniform/accuracy")] == [6, 12]


def test_a_loss_that_is_not_finite_stops_the_run_in_words(tmp_path: Path) -> None:
    overrides = [
        "train.learning_rate=1e30",
        "train.grad_clip=none",
        "train.schedule=constant",
        "train.checkpoint_every=1",
    ]
    session = start(recipes.load("parity", [*TINY, *overrides, "train.steps=50"]), tmp_path / "run")
    with pytest.raises(Problem) as error:
        list(session.steps())
    message = str(error.value)
    assert message.startswith(f"step {session.progress.step + 1}: the loss is nan; first not finite: the ")
    rows = session.rows_at(session.progress.step + 1)
    assert f"batch: training rows {rows[0]}, {rows[1]}" in message
    assert f"the checkpoint of step {session.progress.step} is kept" in message
    assert error.value.exit_code == 1
    assert session.run.newest()[0] is not None


def test_the_first_tensor_that_is_not_finite_is_named() -> None:
    linears = [nn.Linear(3, 3) for _ in range(3)]
    model, x = nn.Sequential(*linears), torch.ones(1, 3)
    with torch.no_grad():
        linears[0].weight.fill_(1e30)
        linears[1].weight.fill_(1e30)
    assert first_not_finite(model, lambda: model(x)) == "the output of 1"
    with torch.no_grad():
        linears[2].bias[1] = math.nan
    assert first_not_finite(model, lambda: model(x)) == "the weight 2.bias"


def test_bf16_is_close_to_fp32(tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        session = start(recipes.load("parity", [*TINY, f"train.precision={precision}"]), tmp_path / precision)
        losses[precision] = [step.loss for step in session.steps()]
    assert losses["bf16"] == pytest.approx(losses["fp32"], abs=0.05)
    assert losses["bf16"] != losses["fp32"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_needs_a_gpu_says_so(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="fp16 needs a GPU"):
        start(recipes.load("parity", [*TINY, "train.precision=fp16"]), tmp_path / "run")
    with pytest.raises(Problem, match=r"train\.device=cuda, but torch finds none"):
        pick_device("cuda")


@pytest.mark.parametrize("overrides", [[], ["train.accumulate=2", "data.examples=33"]])
def test_two_processes_do_the_work_of_one(overrides: list[str], tmp_path: Path) -> None:
    """33 examples in batches of 32 leave a batch of one, which one of the processes has no row of."""
    command = [sys.executable, "-m", "headway", "train", "parity", *TINY, *overrides, "train.device=cpu"]
    weights, losses = {}, {}
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        overrides = [f"train.processes={processes}", "--out", str(folder)]
        subprocess.run([*command, *overrides], check=True, capture_output=True, timeout=120, text=True)
        weights[processes] = load_file(folder / "checkpoints" / "step-00000012" / "model.safetensors")
        losses[processes] = [
            json.loads(line)["train"]["loss"] for line in (folder / "metrics.jsonl").open() if "train" in line
        ]
    assert_same(weights[1], weights[2], atol=2e-5, rtol=2e-4)
    assert losses[1] == pytest.approx(losses[2], abs=1e-5)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_gradient_that_is_not_finite_stops_the_run_before_the_weights_are_lost(tmp_path: Path) -> None:
    overrides = ["train.optimizer=sgd(momentum=0)", "train.grad_clip=none", "train.checkpoint_every=1"]
    session = start(recipes.load("parity", [*TINY, *overrides]), tmp_path / "run")
    steps = session.steps()
    next(steps)
    name, weight = list(session.model.named_parameters())[3]
    weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(Problem, match=f"step 2: the gradient is not finite; first not finite: the gradient of {name}"):
        next(steps)
    kept = session.run.newest()[0]
    assert kept is not None
    assert kept.step == 1
    assert all(tensor.isfinite().all() for tensor in kept.weights.values())


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    overrides = [
        "train.optimizer=sgd(momentum=0)",
        "train.grad_clip=none",
        "train.schedule=constant",
        "train.checkpoint_every=1",
    ]
    session = start(recipes.load("parity", [*TINY, *overrides, "train.learning_rate=1e38"]), tmp_path / "run")
    with pytest.raises(Problem, match="not finite"):
        list(session.steps())
    kept = session.run.newest()[0]
    assert kept is None or all(tensor.isfinite().all() for tensor in kept.weights.values())


def test_a_session_that_goes_on_holds_its_lock_again(tmp_path: Path) -> None:
    session = start(recipes.load("parity", [*TINY, "train.checkpoint_every=1"]), tmp_path / "run")
    first = session.steps()
    next(first)
    first.close()
    second = session.steps()
    assert next(second).number == 2
    with pytest.raises(Problem, match="is being trained by another process"):
        resume(tmp_path / "run")
    second.close()


def test_a_rate_that_is_not_finite_stops_the_run_before_the_weights_change(tmp_path: Path) -> None:
    session = start(recipes.load("parity", TINY), tmp_path / "run")
    steps = session.steps()
    next(steps)
    assert isinstance(session.loop, Loop)
    session.loop.schedule = lambda number, total: math.nan  # type: ignore[assignment]
    before = [weight.clone() for weight in session.model.parameters()]
    with pytest.raises(Problem, match="step 2: the schedule makes the learning rate nan"):
        next(steps)
    assert all(torch.equal(one, other) for one, other in zip(before, session.model.parameters(), strict=True))


def test_a_step_that_could_not_be_logged_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run would never log it."""

    def full(log: MetricsLog, step: int, values: object, **more: object) -> None:
        raise Problem("no space left")

    session = start(recipes.load("parity", TINY), tmp_path / "run")
    monkeypatch.setattr(MetricsLog, "write", full)
    with pytest.raises(Problem, match="no space"):
        list(session.steps())
    assert session.run.newest()[0] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_tensorboard_has_what_it_is_given(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception within its queue could leave its thread waiting, and the process waiting for the thread."""
    done, usual = [], {name: getattr(SummaryWriter, name) for name in ("add_scalar", "close")}

    def interrupted(name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            signal.raise_signal(number)
            usual[name](*arguments)
            done.append(name)

        return call

    for name in usual:
        monkeypatch.setattr(SummaryWriter, name, interrupted(name))
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), MetricsLog(tmp_path) as log:
            log.write_outcome({}, {"loss": 1.0})
    finally:
        signal.signal(number, before)
    assert done == ["add_scalar", "close"]
    assert not any(isinstance(thread, _AsyncWriterThread) for thread in threading.enumerate())
