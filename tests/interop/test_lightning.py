"""A task under the Trainer of the real Lightning: the same weights as under ours, and a run from its checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headway as hw
from conftest import Outcome, done, quick
from headway import recipes
from headway.config.errors import Problem
from headway.interop.lightning import TaskData, TaskModule
from headway.runs.fit import start

Headway = Callable[..., Outcome]
QUIET: dict[str, Any] = {
    **{"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False},
    "enable_checkpointing": False,
}


def trainer(folder: Path, steps: int, **more: Any) -> Any:
    from lightning.pytorch import Trainer

    return Trainer(max_steps=steps, default_root_dir=folder, **QUIET | more)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])  # muon is two optimizers
def test_the_trainer_ends_with_the_weights_of_our_loop(optimizer: str, own_folder: Path) -> None:
    words = ["data.examples=200", "data.tests=40", "train.steps=6", f"train.optimizer={optimizer}", "model.dropout=0"]
    words += ["train.warmup=2", "train.evaluate_every=100"]
    ours = done(start(recipes.load("parity", words), own_folder / "ours")).run
    module = TaskModule.of("parity", words)
    own = trainer(own_folder, 6)
    own.fit(module, TaskData(module))
    expected = ours.model().state_dict()
    for name, weight in module.network.state_dict().items():
        torch.testing.assert_close(weight, expected[name], atol=2e-5, rtol=1e-4)
    (measured, *_) = [own.test(module, TaskData(module), verbose=False)]
    results = ours.results["test"]
    flat = {name: value for each in measured for name, value in each.items()}
    for name, values in results.items():
        assert flat[f"test/{name}/accuracy"] == pytest.approx(values["accuracy"], abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_of_lightning_becomes_a_run(own_folder: Path) -> None:
    """Also where the data are not: tokenizer and labels are in the checkpoint."""
    words = quick("classify", own_folder)
    module = TaskModule.of("classify", words)
    own = trainer(own_folder, 3)
    own.fit(module, TaskData(module))
    own.save_checkpoint(own_folder / "last.ckpt")
    (own_folder / "reviews.csv").unlink()
    loaded = TaskModule.load_from_checkpoint(own_folder / "last.ckpt")
    run = loaded.to_run(own_folder / "run")
    model = hw.load(run.folder)
    text = "the plot was not dull"
    inputs = model.run.task.sequences([text])  # type: ignore[attr-defined]
    tokens, lengths = inputs.pad(torch.zeros(1, dtype=torch.long).numpy())
    expected = module.network.eval()(tokens, lengths).softmax(dim=-1)[0].tolist()
    assert list(model.predict(text).probabilities.values()) == pytest.approx(expected, abs=1e-6)
    assert run.newest()[0].step == 3
    again = TaskModule.of_run(run)
    assert all(
        torch.equal(weight, module.network.state_dict()[name]) for name, weight in again.network.named_parameters()
    )


def test_a_task_with_a_loop_of_its_own_says_so(own_folder: Path) -> None:
    with pytest.raises(Problem, match="a training loop of its own"):
        TaskModule.of("vectors", quick("vectors", own_folder))
