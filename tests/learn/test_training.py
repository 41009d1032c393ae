"""Exercises that train, and those that look into what was trained."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import headway as hw
from conftest import Outcome
from headway.learn import sandbox, trials
from headway.learn.catalogue import exercise, exercises
from headway.learn.exercise import Report
from headway.learn.folder import Folder
from headway.learn.grading import grade
from headway.learn.tracks.inside import accuracy_without_heads, without_head
from headway.learn.training import Train
from headway.nn.attention import Attention

TRAININGS = [each for each in exercises().values() if isinstance(each, Train)]
PARITY, LENGTHS = exercise("goal.parity"), exercise("look.parity")
FEW = ("train.steps = 600", "train.steps = 50")


def checked(found: object, text: str, tmp_path: Path, seed: int = 1) -> Report:
    path = tmp_path / "answer.toml"
    path.write_text(text)
    assert isinstance(found, Train)
    return found.check(path, seed)


def solution() -> str:
    """Without training."""
    assert isinstance(PARITY, Train)
    return PARITY.text({"parity": PARITY.runs["parity"].solution}, {})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", "nothing has been changed yet"),
        ("model.layers = 1", "model.layers = 3", "model.layers = 3: from 1 to 2"),
        ("model.layers = 1", "model.layers = 1.5", "model.layers = 1.5: from 1 to 2"),
        ("model.layers = 1", "model.layers = true", "model.layers = True: from 1 to 2"),
        ("model.layers = 1", 'model.layers = "many"', "model.layers = many: from 1 to 2"),
        ("train.warmup = 20", "train.warmup = nan", "train.warmup = nan: from 0 to 200"),
        ('"relu"', '"relu; rm"', "model.feedforward = relu; rm: choose relu or gelu or sine(scale=16)"),
        ('"relu"', "3", "model.feedforward = 3: choose relu"),
        ("model.layers = 1", "train.out = 1", "train.out is not among the settings of this exercise"),
        ("[parity]", "[party]", "'party' is neither a question nor a table of this exercise"),
        ("[parity]", "parity = 3\n[more]", "'more' is neither"),
        ("[parity]", "[parity", "Expected"),
    ],
)
def test_settings_that_are_refused_before_any_training(old: str, new: str, says: str, tmp_path: Path) -> None:
    text = PARITY.skeleton(1).replace(old, new, 1) if old else PARITY.skeleton(1)
    report = checked(PARITY, text, tmp_path)
    assert not report.passed
    assert says in report.findings[0].detail
    assert not list(tmp_path.glob("*.runs"))


def test_the_solution_of_a_goal_reaches_its_mark(tmp_path: Path) -> None:
    report = checked(PARITY, solution(), tmp_path)
    assert report.passed, report.findings
    assert report.score == 1
    assert report.advice == ""


def test_what_was_trained_is_kept_and_other_settings_are_trained_again(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    path = tmp_path / "answer.toml"
    path.write_text(solution().replace(*FEW))
    first = PARITY.check(path, 1, lambda what, share: told.append((what, share)))
    assert not first.passed
    assert first.findings[0].ok
    assert first.advice == "It has hardly begun to learn: give it more steps."
    assert told[-1] == ("training parity", 1.0)
    assert len(first.curves["parity"]) > 20
    weights = next((tmp_path / "answer.runs" / "parity").rglob("*.safetensors"))
    written, start = weights.stat().st_mtime_ns, sum(os.times()[:4])
    assert PARITY.check(path, 1) == first
    assert sum(os.times()[:4]) - start < 2
    assert weights.stat().st_mtime_ns == written
    (tmp_path / "answer.runs" / "parity.json").write_text("{")  # damaged: once more
    assert PARITY.check(path, 1) == first
    path.write_text(solution().replace("train.steps = 600", "train.steps = 51"))
    assert "51 steps" in PARITY.check(path, 1).findings[0].value


def test_trainings_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LIMITS", replace(trials.LIMITS, seconds=0.3))
    report = checked(PARITY, solution(), tmp_path)
    assert [finding.detail for finding in report.findings] == ["it is not done after 0.3 seconds"]
    assert report.score == 0
    monkeypatch.setattr(trials, "LIMITS", replace(trials.LIMITS, seconds=100, files=1000))
    assert not checked(PARITY, solution().replace(*FEW), tmp_path).passed


def test_a_process_tells_what_it_does() -> None:
    heard: list[bytes] = []

    def work() -> bytes:
        for number in range(3):
            sandbox.tell(str(number).encode())
        return b"done"

    assert sandbox.run(work, trials.LIMITS, heard.append).result == b"done"
    assert heard == [b"0", b"1", b"2"]


def test_grades_come_from_the_settings_alone(tmp_path: Path) -> None:
    """Whatever results were handed in with them; and the same settings are trained once."""
    folders = []
    for name in ("anna", "ben"):
        folder = Folder.create(tmp_path / name, ["goal.parity"])
        folder.file(PARITY).write_text(solution().replace(*FEW))
        folder.check(PARITY)
        kept = folder.file(PARITY).with_suffix(".runs") / "parity.json"
        content = json.loads(kept.read_text())
        kept.write_text(json.dumps({**content, "scores": {**content["scores"], "random": 1.0, "uniform": 1.0}}))
        assert folder.check(PARITY).passed  # to oneself one may lie
        folders.append(folder.path)
    grades = grade(folders, seed=5)
    assert [each.passed for each in grades.graded] == [False, False]
    assert grades.graded[0].findings == grades.graded[1].findings
    assert grades.mistakes() == {"goal.parity: It has hardly begun to learn: give it more steps.": 2}


def test_inside_parity_as_a_learner_measures_it(tmp_path: Path) -> None:
    """With headway.load and predict, and not as the check does it."""
    empty = checked(LENGTHS, LENGTHS.skeleton(1), tmp_path)
    assert empty.findings[0].ok
    assert {finding.detail for finding in empty.findings[1:]} == {"nothing has been written yet"}
    model = hw.load(tmp_path / "answer.runs" / "model")

    def share(length: int, counts: list[int], divisor: int) -> float:
        texts = ["1" * ones + "0" * (length - ones) for ones in counts]
        labels = [prediction.label for prediction in model.predict(texts)]
        right = ["odd" if ones // divisor % 2 else "even" for ones in counts]
        return sum(one == other for one, other in zip(labels, right, strict=True)) / len(texts)

    answers = [share(10, list(range(11)), 1), share(20, list(range(21)), 1), share(20, list(range(0, 21, 2)), 2)]
    text = "at_10 = {}\nat_20 = {}\nhalf = {}\n".format(*answers)
    assert checked(LENGTHS, text + 'sees = "share"\n', tmp_path).passed
    wrong = checked(LENGTHS, text + 'sees = "number"\n', tmp_path)
    assert [finding.name for finding in wrong.findings if not finding.ok] == ["sees"]
    assert wrong.score == pytest.approx(0.8)


def test_a_head_without_its_columns_gives_nothing() -> None:
    run = hw.train(
        "reviews",
        settings=["data.examples=200", "data.tests=50", "model.layers=1", "train.steps=5"],
        progress=False,
    ).run
    scores = accuracy_without_heads(run)
    assert list(scores) == ["all", "1.1", "1.2", "1.3", "1.4"]
    attention = next(part for part in run.network.modules() if isinstance(part, Attention))
    seen: list[torch.Tensor] = []
    attention.output.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    x = torch.randn(1, 5, 32)
    whole, before = attention(x), attention.output.weight.clone()
    with without_head(attention, 2):
        mixed = seen[-1].clone()
        mixed[..., 16:24] = 0  # the third head of width 8, before the output matrix
        torch.testing.assert_close(attention(x), torch.nn.functional.linear(mixed, before, attention.output.bias))
    assert torch.equal(attention.output.weight, before)
    torch.testing.assert_close(attention(x), whole)


@pytest.mark.parametrize("found", TRAININGS, ids=lambda found: found.id)
def test_solutions_are_within_the_room_and_differ_from_the_beginning(found: Train) -> None:
    for part in ("begin", "solution"):
        tables = {table: getattr(found.runs[name], part) for table, name in found.tables.items()}
        assert found.chosen(tables)[1] == ""
    assert found.looks or found.asked or any(run.begin != run.solution for run in found.runs.values())
    assert len({slip.sentence for slip in found.slips}) == len(found.slips)
    assert len(found.hints) == 3


def test_pictures_of_losses_and_of_grids(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    Folder.create(tmp_path / "learn", ["goal.parity", "attn.self", "mask.causal", "attn.why_scale"])
    place = Folder.open(tmp_path / "learn")
    place.file(PARITY).write_text(solution().replace(*FEW))
    wrong = "def self_attention(x, queries, keys, values):\n    return x @ values\n"
    place.file(exercise("attn.self")).write_text(wrong)
    for name in ("goal.parity", "attn.self"):
        for ending in ("png", "html"):
            headway("learn", "check", name, "--picture", f"{name}.{ending}")
        assert Path(f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = Path("attn.self.html").read_text()
    assert page.count("<table class='grid'>") == 3
    assert "class='at'" in page
    assert "FAIL values" in page
    assert "<polyline" in Path("goal.parity.html").read_text()
    place.file(exercise("attn.self")).write_text(exercise("attn.self").solved(1))
    assert headway("learn", "check", "attn.self", "--picture", "right.html").code == 0
    assert "class='at'" not in Path("right.html").read_text()
    nothing = headway("learn", "check", "attn.why_scale", "--picture", "x.png")
    assert (nothing.code, nothing.err.count("\n")) == (2, 1)
    assert "has nothing to draw" in nothing.err
    assert "drawn as .png or .html" in headway("learn", "check", "attn.self", "--picture", "x.gif").err
