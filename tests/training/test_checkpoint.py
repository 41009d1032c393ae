"""Checkpoints: damaged ones are named and passed over, and nothing that is written is lost."""

import json
import math
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from headway import Run, recipes
from headway.config.errors import Problem
from headway.data.storage import new_folder, sha256_of
from headway.runs.fit import resume, start
from headway.training.checkpoint import Checkpoint, newest, prune, read, steps_in, write
from torture.harness import limits

TINY = ["data.examples=100", "data.tests=20", "model.width=8", "model.heads=2", "train.batch_size=16", "train.warmup=2"]


def checkpoint(step: int, best_step: int | None = None) -> Checkpoint:
    weights = {"w": torch.full((3,), float(step))}
    return Checkpoint(weights, {"w:exp_avg": torch.ones(3)}, {"step": step, "best_step": best_step}, {})


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path, checkpoint(5))
    back = read(tmp_path, 5)
    assert back.step == 5
    assert torch.equal(back.weights["w"], torch.full((3,), 5.0))
    assert torch.equal(back.moments["w:exp_avg"], torch.ones(3))


@pytest.mark.parametrize("damage", [flip_a_bit, cut_off, Path.unlink])
@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
def test_the_newest_whole_one_wins_and_a_damaged_one_is_named(damage: object, name: str, tmp_path: Path) -> None:
    write(tmp_path, checkpoint(5))
    write(tmp_path, checkpoint(9))
    damage(tmp_path / "step-00000009" / name)  # type: ignore[operator]
    found, damaged = newest(tmp_path)
    assert found is not None
    assert found.step == 5
    assert len(damaged) == 1
    assert "step-00000009" in damaged[0]
    assert "damaged" in damaged[0]


def test_an_interrupt_is_not_taken_for_damage(tmp_path: Path) -> None:
    """Libraries turn it into errors of their own, and then an older checkpoint would be used."""
    tensors = {str(index): torch.ones(3) for index in range(50)}
    write(tmp_path, checkpoint(5))
    write(tmp_path, replace(checkpoint(9), weights=tensors))
    began = time.perf_counter()
    newest(tmp_path)
    seconds, random, interrupts = time.perf_counter() - began, np.random.default_rng(0), 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, seconds))
                found, damaged = newest(tmp_path)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
                continue
            assert damaged == []
            assert found is not None
            assert found.step == 9
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 30


def rewrite(folder: Path, name: str, text: str) -> None:
    """With a manifest that fits."""
    (folder / name).write_text(text)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {name: sha256_of(folder / name)}))


def in_manifest(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "manifest.json").write_text(json.dumps({name: "0" * 64}))  # type: ignore[return-value]


def state(progress: dict[str, Any]) -> Callable[[Path], None]:
    whole = {"progress": {"step": 9, "best_step": None} | progress, "scaler": {}}
    return lambda folder: rewrite(folder, "state.json", json.dumps(whole))


def instead_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return damage


DEEP = "[" * 100_000
HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "deep manifest": (lambda folder: (folder / "manifest.json").write_text(DEEP), "nested too deeply"),
    "deep state": (lambda folder: rewrite(folder, "state.json", DEEP), "nested too deeply"),
    "a list as manifest": (lambda folder: (folder / "manifest.json").write_text("[]"), "expected {...: str}"),
    "a device": (in_manifest("/dev/zero"), "'/dev/zero' in manifest.json is not a file of a checkpoint"),
    "outside": (in_manifest("../step-00000005/model.safetensors"), "is not a file of a checkpoint"),
    "a pipe": (instead_of("model.safetensors", os.mkfifo), "model.safetensors is not a regular file"),
    "a pipe as manifest": (instead_of("manifest.json", os.mkfifo), "manifest.json is not a regular file"),
    "a link": (instead_of("state.json", lambda path: path.symlink_to("/dev/zero")), "is a link to somewhere else"),
    "a linked manifest": (
        instead_of("manifest.json", lambda path: path.symlink_to("../step-00000005/manifest.json")),
        "manifest.json is a link to somewhere else",
    ),
    "a folder": (instead_of("state.json", Path.mkdir), "state.json is not a regular file"),
    "a huge file": (lambda folder: os.truncate(folder / "model.safetensors", 1 << 42), "4,398,046,511,104 bytes, more"),
    "a huge manifest": (lambda folder: os.truncate(folder / "manifest.json", 1 << 42), "bytes, more than"),
    "a text as step": (state({"step": "9"}), "damaged: expected {progress: {step: int"),
    "another step": (state({"step": 5}), "state.json does not describe step 9"),
    "a text as time": (state({"seconds": "1"}), "state.json does not describe step 9"),
    "unknown progress": (state({"speed": 1}), "state.json does not describe step 9"),
    "no scaler": (lambda folder: rewrite(folder, "state.json", '{"progress": {"step": 9}}'), "expected {progress"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_would_crash_or_hang_is_passed_over(case: str, tmp_path: Path) -> None:
    write(tmp_path, checkpoint(5))
    write(tmp_path, checkpoint(9))
    damage, message = HOSTILE[case]
    damage(tmp_path / "step-00000009")
    with limits(10):
        intact, (damaged,) = newest(tmp_path)
        prune(tmp_path)
    assert intact is not None
    assert intact.step == 5
    assert message in damaged
    assert 5 in steps_in(tmp_path)


def test_a_step_is_a_number(tmp_path: Path) -> None:
    write(tmp_path, checkpoint(5))
    for name in ("abc", "", "-0000001", "٠٠٠٠٠٠٠٩", "9" * 200, "00000009.old", "000000009", "7"):
        (tmp_path / f"step-{name}").mkdir()
    assert steps_in(tmp_path) == [5]
    found, damaged = newest(tmp_path)
    assert found is not None
    assert (found.step, damaged) == (5, [])


def test_leftovers_of_what_was_killed_are_swept_and_those_of_the_living_stay(tmp_path: Path) -> None:
    with new_folder(tmp_path / "living") as living:
        for leftover in (".new-abc", ".removing-def", ".other"):
            (tmp_path / leftover).mkdir()
        for folder in tmp_path.iterdir():
            os.utime(folder, (0, 0))
        (tmp_path / ".new-young").mkdir()
        with new_folder(tmp_path / "next"):
            pass
        assert {path.name for path in tmp_path.iterdir()} == {living.path.name, ".other", ".new-young", "next"}


def test_a_step_can_be_removed_again_after_a_removal_was_killed(tmp_path: Path) -> None:
    (tmp_path / ".removing-step-00000009").mkdir()
    (tmp_path / ".removing-step-00000009" / "file").touch()
    for _ in range(2):
        write(tmp_path, checkpoint(9))
    prune(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000009"]


def test_what_is_removed_while_it_is_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the process that trains, which has written newer ones."""
    write(tmp_path, checkpoint(5))

    def train_on(path: Path) -> str:
        monkeypatch.undo()
        write(tmp_path, checkpoint(9))
        shutil.rmtree(tmp_path / "step-00000005")
        return sha256_of(path)

    monkeypatch.setattr("headway.training.checkpoint.sha256_of", train_on)
    found, damaged = newest(tmp_path)
    assert found is not None
    assert (found.step, damaged) == (9, [])


def test_half_a_checkpoint_is_none(tmp_path: Path) -> None:
    write(tmp_path, checkpoint(5))
    shutil.copytree(tmp_path / "step-00000005", tmp_path / ".writing-9")
    assert steps_in(tmp_path) == [5]
    write(tmp_path, checkpoint(9))
    assert read(tmp_path, 9).step == 9


def test_a_folder_is_complete_or_not_there(tmp_path: Path) -> None:
    first, second = tmp_path / "deep" / "run", tmp_path / "deep" / "run-2"
    for expected in (first, second):
        with new_folder(first, [second]) as new:
            assert not expected.exists()
            (new.path / "file").write_text(expected.name)
        assert new.path == expected
        assert stat.S_IMODE(expected.stat().st_mode) == 0o755
    with pytest.raises(OSError, match="not empty"), new_folder(first, [second]):
        pass
    with pytest.raises(Problem, match="half"), new_folder(tmp_path / "deep" / "failed"):
        raise Problem("half")
    with new_folder(first, durable=True, replace=True) as new:
        (new.path / "other").touch()
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["run", "run-2"]
    assert [path.name for path in first.iterdir()] == ["other"]


def test_a_damaged_one_is_replaced_when_its_step_comes_again(tmp_path: Path) -> None:
    write(tmp_path, checkpoint(9))
    flip_a_bit(tmp_path / "step-00000009" / "model.safetensors")
    write(tmp_path, checkpoint(9))
    assert read(tmp_path, 9).step == 9


def test_the_newest_two_and_their_best_are_kept(tmp_path: Path) -> None:
    for step, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 5), (6, 5)):
        write(tmp_path, checkpoint(step, best))
        prune(tmp_path)
        if step == 5:
            assert steps_in(tmp_path) == [5, 4, 2]  # should 5 be damaged, 4 wants its best
    assert steps_in(tmp_path) == [6, 5]


def run_once(folder: Path, *overrides: str) -> Run:
    session = start(recipes.load("parity", [*TINY, "train.steps=8", "train.checkpoint_every=2", *overrides]), folder)
    list(session.steps())
    return Run.of(session.run)


def test_a_run_with_a_damaged_checkpoint_goes_on_from_the_one_before(tmp_path: Path) -> None:
    run = run_once(tmp_path / "run")
    final = run.final_checkpoint().weights
    (run.folder / "results.json").unlink()
    flip_a_bit(run.checkpoints / "step-00000008" / "model.safetensors")
    session = resume(run.folder)
    assert "step-00000008" in session.notes[-1]
    assert [step.number for step in session.steps()] == [7, 8]
    again = run.final_checkpoint().weights
    assert all(torch.equal(final[name], again[name]) for name in final)
    assert run.is_done


def test_a_run_whose_checkpoints_are_all_damaged_says_so(tmp_path: Path) -> None:
    run = run_once(tmp_path / "run")
    for step in steps_in(run.checkpoints):
        cut_off(run.checkpoints / f"step-{step:08d}" / "model.safetensors")
    with pytest.raises(Problem, match=r"cannot be used: .*model.safetensors is damaged"):
        run.evaluate()


def test_weights_that_do_not_fit_the_recipe_are_refused(tmp_path: Path) -> None:
    run = run_once(tmp_path / "run")
    recipe = run.folder / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("width = 8", "width = 16"))
    with pytest.raises(Problem, match=r"does not match its recipe: encoder\.embedding\.table\.weight is"):
        Run(run.folder).evaluate()


def rewritten(path: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    save_file(change(load_file(path)), path)
    manifest = json.loads((path.parent / "manifest.json").read_text())
    (path.parent / "manifest.json").write_text(json.dumps(manifest | {path.name: sha256_of(path)}))


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    run = run_once(tmp_path / "run")
    last = run.checkpoints / "step-00000008" / "model.safetensors"
    rewritten(last, lambda weights: weights | {"head.weight": torch.full_like(weights["head.weight"], math.nan)})
    for use in (lambda: run.load().predict("01"), lambda: run.load().explain("01"), lambda: resume(run.folder)):
        with pytest.raises(Problem, match=r"step-00000008 cannot be used: the weight head\.weight is not finite"):
            use()


def test_a_mean_of_other_weights_is_refused(tmp_path: Path) -> None:
    run = run_once(tmp_path / "run", "train.average=ema(decay=0.9)")
    last = run.checkpoints / "step-00000008" / "model.safetensors"
    rewritten(last, lambda weights: {name.replace("head.bias", "head.bigs"): weights[name] for name in weights})
    with pytest.raises(Problem, match=r"step-00000008 does not match its recipe: head\.bias is missing"):
        resume(run.folder)


def test_moments_of_another_model_are_refused(tmp_path: Path) -> None:
    run = run_once(tmp_path / "run")
    last = run.checkpoints / "step-00000008" / "optimizer.safetensors"
    for change in (
        lambda moments: {f"other.{name}": moment for name, moment in moments.items()},
        lambda moments: {name: torch.ones(3) for name in moments},
        lambda moments: {name: moment.to(torch.int64) for name, moment in moments.items()},
    ):
        rewritten(last, change)
        with pytest.raises(Problem, match=r"optimizer\.safetensors does not match its recipe"):
            resume(run.folder)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_folder_that_is_removed_while_it_trains_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    session = start(recipes.load("parity", [*TINY, "train.steps=400", "train.log_every=1"]), tmp_path / "run")
    steps = session.steps()
    next(steps)
    shutil.rmtree(session.run.folder)
    time.sleep(0.2)  # TensorBoard writes in a thread
    with pytest.raises(Problem, match="run was removed while it was being trained"):
        list(steps)
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_says_what_made_it(tmp_path: Path) -> None:
    run = run_once(tmp_path / "run", "train.seed=7")
    about = json.loads((run.folder / "about.json").read_text())
    assert about["seed"] == 7
    assert about["torch"] == torch.__version__
    assert {"python", "headway", "threads", "created"} <= about.keys()
    assert run.recipe.train.seed == 7
    assert Run(run.folder).recipe == run.recipe


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    first, second, third = (run_once(tmp_path / "run", f"train.seed={seed}") for seed in (1, 2, 3))
    assert [run.folder.name for run in (first, second, third)] == ["run", "run-2", "run-3"]
    assert first.recipe.train.seed == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run_once(empty).folder == empty
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_full_disk_is_named_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: writing past it fails in the same way."""
    folder = tmp_path / "run"
    run_once(folder, "train.steps=4")
    script = (
        "import resource, signal, sys; from headway.cli import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "main()"
    )
    overrides = [*TINY, "train.steps=8", "train.checkpoint_every=2", "--out", str(tmp_path / "full")]
    done = subprocess.run(
        [sys.executable, "-c", script, "train", "parity", *overrides], capture_output=True, text=True, timeout=120
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 9000
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "cannot write the checkpoint" in done.stderr
    assert "File too large" in done.stderr
    assert not list((tmp_path / "full" / "checkpoints").iterdir())
