"""Runs that an earlier version made, stopped half-way: they predict and resume as that version would have them do.

The folders in old_runs were made by headway 0.1.0, with the names that settings had then.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from conftest import done
from headway import Model, load
from headway.runs.fit import resume
from headway.runs.warm_start import word_vectors_of
from headway.tasks.abilities import Translates, need
from headway.training import checkpoint

DATA = Path(__file__).parent / "old_runs"
EXPECTED = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))


def labels(model: Model, texts: list[str]) -> Any:
    return [{"label": each.label, "probabilities": each.probabilities} for each in model.predict(texts)]


def text(model: Model) -> Any:
    return model.generator().write(["the plot"] * 3, 12, seeds=[3, 4, 5])


def translation(model: Model) -> Any:
    translator = need(model.run.task, Translates).generator(model.network)
    return [[translator.text_of(best), best[0].score] for best in translator.translate(["one hundred two"])]


REVIEWS = [line.split('"')[1] for line in (DATA / "reviews.csv").read_text().splitlines()[1:3]]
ASKED: dict[str, Callable[[Model], Any]] = {
    "parity": lambda model: labels(model, ["01101001", "11111110"]),
    "classify": lambda model: labels(model, REVIEWS),
    "language": text,
    "language-lstm": text,
    "ppo": text,
    "pretrain": lambda model: [[list(each) for each in mask] for mask in model.fill("the [MASK] was", top=2)],
    "translate": translation,
    "reward": lambda model: model.rate(["abc", "abc"], ["aaa", "bcd"]),
    "vectors": lambda model: [list(each) for each in word_vectors_of(model.run.folder).nearest("the", 3)],
}


@pytest.fixture
def old_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(DATA, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


NEW = {"perplexity_word"}  # metrics that there were none of


def assert_same(found: Any, expected: Any) -> None:
    """Numbers to six digits, everything else to the letter."""
    if isinstance(expected, dict):
        assert found.keys() - NEW == expected.keys()
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-5, abs=1e-6) if isinstance(expected, float) else expected)


def machine() -> dict[str, str]:
    """How sums are rounded here. Libraries choose their kernels by more than the instruction set, so that only numbers
    tell."""
    random = torch.Generator().manual_seed(0)
    rows, columns, few = (torch.randn(*shape, generator=random) for shape in ((67, 129), (129, 33), (12, 8)))
    heads = torch.randn(3, 2, 2, 19, 8, generator=random)
    numbers = [rows @ columns, few @ few.T, rows.softmax(-1), rows.tanh(), F.gelu(rows), F.layer_norm(rows, (129,))]
    numbers.append(F.scaled_dot_product_attention(*heads))
    sums = hashlib.sha256(b"".join(each.numpy().tobytes() for each in numbers)).hexdigest()
    return {"torch": torch.__version__, "cpu": llvmlite.binding.get_host_cpu_name(), "sums": sums}


def same_machine() -> bool:
    return machine() == EXPECTED["machine"]


def test_every_old_run_is_tried() -> None:
    assert set(ASKED) == {path.parent.name for path in DATA.glob("*/recipe.toml")} == set(EXPECTED) - {"machine"}


@pytest.mark.parametrize("name", ASKED)
def test_an_old_run_predicts_and_resumes_as_ever(name: str, old_runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = EXPECTED[name]
    assert_same(ASKED[name](load(name)), expected["half"])
    run = done(resume(name)).run
    assert not any(capfd.readouterr())  # that its settings have other names now is nobody's concern
    weights = checkpoint.read(run.checkpoints, expected["results"]["steps"]).weights
    wanted = load_file(DATA / name / "expected.safetensors")
    assert weights.keys() == wanted.keys()
    for key, tensor in wanted.items():
        if same_machine():
            assert torch.equal(weights[key], tensor), key
        else:
            torch.testing.assert_close(weights[key], tensor, atol=1e-4, rtol=1e-3)
    results = {key: run.results[key] for key in expected["results"]}
    results["test"] = {key: results["test"][key] for key in expected["results"]["test"]}  # there may be more by now
    assert_same(results, expected["results"])
    assert_same(ASKED[name](load(name)), expected["whole"])
