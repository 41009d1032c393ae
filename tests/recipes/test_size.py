"""What cannot fit this machine is refused with the numbers, before it is built; what fits is left alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import Outcome, quick
from headway import recipes
from headway.config import limits
from headway.config.errors import Problem
from headway.config.limits import free_memory, refuse_beyond
from headway.recipes.size import moments_of, refuse_long, refuse_too_large, weight_counts
from headway.tasks import TASKS
from torture import harness

Headway = Callable[..., Outcome]


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It has 1.2 GB free, and this process nothing."""
    (tmp_path / "meminfo").write_text("MemTotal: 4000000 kB\nMemAvailable: 1171875 kB\nSwapFree: 0 kB\n")
    (tmp_path / "statm").write_text("0 0 0 0 0 0 0\n")
    monkeypatch.setattr(limits, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(limits, "OWN", tmp_path / "statm")
    monkeypatch.setattr(limits, "CONTAINER", ())


@pytest.mark.parametrize("name", recipes.names())
def test_weights_are_counted_from_few_layers(name: str, tmp_path: Path) -> None:
    deep = ["model.width=16", "model.heads=2", "model.kv_heads=none", "model.layers=5", "model.encoder_layers=4"]
    recipe = recipes.load(name, quick(name, tmp_path))
    own = replace(recipe, start=None, model=recipes.load("parity", deep).model)
    with torch.device("meta"):
        weights = list(TASKS[own.task](own).model().parameters())
    everything = sum(weight.numel() for weight in weights)
    trained = sum(weight.numel() for weight in weights if weight.requires_grad)
    assert weight_counts(TASKS[own.task](own)) == (everything, trained)


@pytest.mark.parametrize(("optimizer", "moments"), {"adamw": 2, "radam": 2, "sgd": 1, "muon": 1}.items())
def test_moments_are_those_of_the_optimizer(optimizer: str, moments: int) -> None:
    assert moments_of(optimizer) == moments


@pytest.mark.usefixtures("small_machine")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "train parity model.layers=20000",
            "model.layers=20000 and model.width=32 make 254,080,258 parameters; training them (weights, gradients, 2 "
            "moments each) needs at least 4.1 GB, and this machine has 1.2 GB free: make it smaller",
        ),
        ("check parity model.layers=20000", "needs at least 4.1 GB, and this machine has 1.2 GB free"),
        ("compare parity --vary model.layers=1,20000 --seeds 1", "needs at least 4.1 GB"),
        ("show parity model.layers=100000", "1,270,400,258 parameters; holding them needs at least 5.1 GB"),
        ("train parity model.width=8192 model.heads=2", "make 1,610,891,266 parameters"),
        ("train parity data.length=10000000", "data.examples=20000 and data.tests=1000, of at least 10,000,000 tokens"),
        ("train parity data.length=4000000000", "data.examples=20000 and data.tests=1000, of at least 4,000,000,000"),
        (
            "train substring data.length=4000000000",
            "data.examples=20000 and data.tests=2000, of at least 4,000,000,000",
        ),
        ("show parity model.width=2147483648", "a matrix as large as model.width=2147483648 makes it"),
        ("train parity data.examples=1000000000", "data.examples=1000000000 and data.tests=1000"),
        ("show substring data.tests=1000000000", "data.examples=20000 and data.tests=1000000000"),
        ("check steps data.examples=1000000000", "needs at least 89.0 GB"),
        ("schedule parity train.epochs=1e308", "train.epochs: 1e+308 epochs are inf steps: at most 4,294,967,295"),
        ("train parity train.threads=100000", "train.threads: 100000 is too large: at most 1024"),
        ("train parity train.processes=100000", "train.processes: 100000 is too large: at most 1024"),
    ],
)
def test_what_cannot_fit_is_refused_at_once(words: str, message: str, headway: Headway) -> None:
    with harness.limits(10, 2000):
        outcome = headway(*words.split())
    assert outcome.code == 2
    assert outcome.err.startswith("headway: ")
    assert message in outcome.err
    assert not list(Path("runs").rglob("recipe.toml"))


@pytest.mark.usefixtures("small_machine")
def test_a_long_sequence_is_refused() -> None:
    task = recipes.task("language", ["model.layers=4", "model.width=64"])
    refuse_long(task, 1_000_000, "cpu")
    message = "training on 10,000,000 tokens at once with model.layers=4 and model.width=64 needs at least 10.2 GB"
    with pytest.raises(Problem, match=message):
        refuse_long(task, 10_000_000, "cpu")


@pytest.mark.usefixtures("small_machine")
def test_a_gpt2_of_124_million_parameters_needs_2_gigabytes(tmp_path: Path) -> None:
    """No estimate is above what is really needed: a machine with more must not refuse it."""
    task = recipes.task("gpt2-small", [f"data.train={tmp_path}", "data.vocab_size=50257"])
    with pytest.raises(Problem, match=r"124,439,808 parameters.* needs at least 2.0 GB"):
        refuse_too_large(task)
    refuse_too_large(task, training=False)


def test_memory_is_what_is_free_and_what_the_process_has(small_machine: None, tmp_path: Path) -> None:
    assert free_memory() == 1_200_000_000
    (tmp_path / "statm").write_text("9 1000 0 0 0 0 0\n")
    assert free_memory() == 1_200_000_000 + 1000 * 4096
    refuse_beyond(free_memory(), 1_200_000_000, "this")


def test_a_container_has_its_own_limit(small_machine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(limits, "CONTAINER", (tmp_path / "none", limit))
    limit.write_text("max\n")
    assert free_memory() == 1_200_000_000
    limit.write_text("500000000\n")
    assert free_memory() == 500_000_000


def test_where_the_system_does_not_tell_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "MEMORY", tmp_path / "none")
    assert free_memory() is None
    refuse_beyond(None, 1 << 60, "this")
