"""Checkpoints: damaged ones are named and passed over, and nothing that is written is lost."""

import json
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headway import Run, recipes
from headway.config.errors import Problem
from headway.data.storage import new_folder
from headway.runs.fit import resume, start
from headway.training.checkpoint import Checkpoint, newest, prune, read, steps_in, write

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
