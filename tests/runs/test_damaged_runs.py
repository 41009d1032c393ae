"""Run folders that were edited, damaged or made to do harm: one clear line each, and nothing else suffers."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway as hw
from conftest import Outcome
from headway.config.errors import Problem
from headway.config.json_files import fits
from headway.data.storage import hold
from headway.runs.run import LOCK
from torture.harness import limits
from trained import Trained

Headway = Callable[..., Outcome]
DEEP = '{"a":' * 100_000


def edited(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a list as results": (
        lambda run: (run / "results.json").write_text("[]"),
        "results.json cannot be read: expected {",
    ),
    "deep results": (lambda run: (run / "results.json").write_text(DEEP), "results.json cannot be read: it is nested"),
    "no steps": (lambda run: edited(run / "results.json", steps="6"), "results.json cannot be read: expected {steps"),
    "no metric": (
        lambda run: edited(run / "results.json", test={"a": {"loss": 1}}),
        "damaged: it has no accuracy",
    ),
    "no sets": (lambda run: edited(run / "results.json", test={}), "results.json is damaged: it has no test set"),
    "texts": (lambda run: edited(run / "results.json", test={"random": {"loss": "1"}}), "cannot be read: expected {"),
    "a pipe as results": (lambda run: replaced(run / "results.json", os.mkfifo), "is not a regular file"),
    "a number as about": (
        lambda run: (run / "about.json").write_text("5"),
        "about.json cannot be read: expected {created",
    ),
    "no threads": (lambda run: edited(run / "about.json", threads=None), "about.json cannot be read: expected {"),
    "no about": (lambda run: (run / "about.json").unlink(), "about.json cannot be read: No such file"),
    "an endless about": (
        lambda run: replaced(run / "about.json", lambda path: path.symlink_to("/dev/zero")),
        "about.json is not a regular file",
    ),
    "a pipe as recipe": (lambda run: replaced(run / "recipe.toml", os.mkfifo), "recipe.toml is not a regular file"),
    "a folder as recipe": (lambda run: replaced(run / "recipe.toml", Path.mkdir), "recipe.toml is a folder"),
    "a deep recipe": (lambda run: (run / "recipe.toml").write_text("a = " + "[" * 100_000), "is nested too deeply"),
}


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained["parity"].run.folder, tmp_path / "runs" / "good", symlinks=True))


def test_each_bad_run_is_a_line_that_says_what_is_wrong_with_it(run: Path, headway: Headway) -> None:
    for name, (damage, _) in DAMAGES.items():
        damage(Path(shutil.copytree(run, run.with_name(name))))
    outcome = headway("runs", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    listed = {Path(each["run"]).name: each for each in json.loads(outcome.out)}
    assert listed.pop("good")["state"] == "done"
    assert listed.keys() == DAMAGES.keys()
    for name, (_, message) in DAMAGES.items():
        assert listed[name]["state"] == "damaged"
        assert message in listed[name]["problem"]
    shown = " ".join(headway("runs").out.split())
    assert "damaged: it has no accuracy" in shown
    assert shown.endswith("next: headway evaluate runs/good")


@pytest.mark.parametrize("name", [name for name in DAMAGES if "recipe" in name])
def test_a_run_without_a_recipe_is_one_line_for_whoever_opens_it(name: str, run: Path, headway: Headway) -> None:
    damage, message = DAMAGES[name]
    damage(run)
    for words in (["show"], ["evaluate"], ["resume"], ["predict", "01"]):
        outcome = headway(words[0], str(run), *words[1:])
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert message in outcome.err
    with pytest.raises(Problem, match=r"recipe\.toml"):
        hw.load(run)


def test_results_that_were_edited_are_one_line(run: Path, headway: Headway) -> None:
    edited(run / "results.json", test=5)
    assert headway("predict", str(run), "01").code == 0  # which does not need them
    outcome = headway("resume", str(run))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    with pytest.raises(Problem, match=r"results\.json cannot be read: expected \{steps"):
        _ = hw.load(run).metrics


def test_a_recipe_of_more_layers_than_there_are_tensors_is_refused(run: Path, headway: Headway) -> None:
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("layers = 1\n", "layers = 5_000_000\n", 1))
    with limits(10, 2000):
        outcome = headway("predict", str(run), "01")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "recipe.toml says 5,000,000 layers, but there are only" in outcome.err


@pytest.mark.parametrize(
    "line",
    [
        *("5", "null", "[]", '{"step": "1"}', '{"step": 1, "train": 5}', '{"step": 1, "seconds": 1, "validation": 2}'),
        '{"step": 1, "train": {}, "validation": "x"}',
        DEEP,
    ],
)
def test_metrics_of_another_shape_are_named_by_their_line(line: str, run: Path, headway: Headway) -> None:
    path = run / "metrics.jsonl"
    path.write_text(path.read_text() + f"{line}\n" + path.read_text())
    (run / "results.json").unlink()
    outcome = headway("resume", str(run))
    number = path.read_text().splitlines().index(line) + 1
    assert outcome.err == f"headway: {path}, line {number}: not a record of metrics; fix or remove the line\n"
    assert outcome.code == 2


def test_looking_at_runs_opens_no_lock_for_writing(
    run: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which would fail in a folder of somebody else."""
    (run / "results.json").unlink()
    lock, usual = run / LOCK, os.open
    lock.write_text("as it was")

    def reading(path: Any, flags: int, *more: Any, **options: Any) -> int:
        assert Path(os.fsdecode(path)).name != LOCK or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        return usual(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", reading)
    for state in ("can be resumed", "being trained"):
        assert [each["state"] for each in json.loads(headway("runs", "--json").out)] == [state]
        assert lock.read_text() == "as it was"
        held = hold(lock)
    os.close(held)


def test_a_lock_that_is_a_link_does_not_lead_to_another_file(run: Path, headway: Headway, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (run / LOCK).unlink(missing_ok=True)
    (run / LOCK).symlink_to(precious)
    outcome = headway("resume", str(run))
    assert outcome.err.startswith(f"headway: {run / LOCK} is a link, and training would write through it")
    assert precious.read_text() == "precious"


def test_shapes() -> None:
    shape = {"step": int, "sets": [{str: int | float}], str: object}
    assert fits({"step": 1, "sets": [{"a": 0.5}, {}], "more": [None]}, shape)
    for other in (5, {}, {"step": True, "sets": []}, {"step": 1.0, "sets": []}, {"step": 1, "sets": [{"a": None}]}):
        assert not fits(other, shape)


def test_counts_of_words_that_do_not_fit_are_one_line(trained: Trained, tmp_path: Path, headway: Headway) -> None:
    run = Path(shutil.copytree(trained["vectors_model"].run.folder, tmp_path / "run"))
    counts = np.load(run / "counts.npy")
    for array in (counts[:-1], -counts, counts[None], counts.astype(float), np.array(counts, object)):
        np.save(run / "counts.npy", array, allow_pickle=True)
        outcome = headway("vectors", "nearest", str(run), "the")
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert "counts.npy" in outcome.err
    (run / "counts.npy").write_bytes(b"")
    assert headway("vectors", "nearest", str(run), "the").code == 2
