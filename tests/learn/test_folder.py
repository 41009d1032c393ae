"""A learner's folder, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome
from headway.config.errors import Problem
from headway.learn.catalogue import exercise, exercises
from headway.learn.folder import Folder

Headway = Callable[..., Outcome]


def test_from_init_to_a_solution(headway: Headway, tmp_path: Path) -> None:
    assert headway("learn", "init").out.startswith(f"{len(exercises())} exercises in learn")
    hello = headway("learn", "check", "start.hello")
    assert (hello.code, hello.err) == (0, "")
    assert "next: headway learn check" in hello.out
    unsolved = headway("learn", "check", "attn.self")
    assert unsolved.code == 1
    assert "nothing has been written yet" in unsolved.out
    refused = headway("learn", "solution", "attn.self")
    assert refused.code == 2
    assert "after 3 more hints" in refused.err
    hints = [headway("learn", "hint", "attn.self").out for _ in range(4)]
    assert [hint[:6] for hint in hints] == ["hint 1", "hint 2", "hint 3", "hint 3"]
    assert "softmax(dim=-1) @ value" in headway("learn", "solution", "attn.self").out
    Path("learn", exercise("attn.self").file).write_text(exercise("attn.self").solved(1))
    assert headway("learn", "check", "attn.self").code == 0
    listed = json.loads(headway("learn", "list", "--json").out)
    assert [each["id"] for each in listed if each["solved"]] == ["start.hello", "attn.self"]
    headway("learn", "reset", "attn.self")
    assert headway("learn", "check", "attn.self").code == 1


def test_a_folder_elsewhere_and_again(headway: Headway, tmp_path: Path) -> None:
    headway("learn", "init", "mine", "--only", "attn.self", "--seed", "3")
    report = json.loads(headway("learn", "check", "attn.self", "--dir", "mine", "--json").out)
    assert not report["passed"]
    own = Path("mine", exercise("attn.self").file)
    own.write_text("mine")
    headway("learn", "init", "mine", "--only", "start")
    assert own.read_text() == "mine"
    assert Folder.open(Path("mine")).progress.exercises == ["start.hello", "attn.self"]
    assert Folder.open(Path("mine")).progress.seed == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("check", "attn.self"), "learn is not a folder of exercises: make one with headway learn init learn"),
        (("check", "attn.slef", "--dir", "mine"), "did you mean 'attn.self'?"),
        (("check", "attn.cache", "--dir", "mine"), "add it with headway learn init mine --only attn.cache"),
        (("init", "file.txt"), "file.txt is a file"),
        (("init", "x", "--only", "nothing"), "there is no exercise 'nothing'"),
        (("list", "--dir", "broken"), "progress.json cannot be read"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], says: str, headway: Headway, tmp_path: Path) -> None:
    (tmp_path / "file.txt").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "progress.json").write_text("{")
    Folder.create(tmp_path / "mine", ["attn.self"])
    outcome = headway("learn", *words)
    assert outcome.code == 2
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_missing_file_is_a_finding(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "mine", ["attn.self"])
    folder.file(exercise("attn.self")).unlink()
    report = folder.check(exercise("attn.self"))
    assert "cannot be read" in report.findings[0].detail


def test_hints_and_solutions_can_be_withheld(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "mine", ["attn.self"])
    folder.progress.hint_levels, folder.progress.solutions = 0, False
    with pytest.raises(Problem, match="without hints"):
        folder.hint(exercise("attn.self"))
    with pytest.raises(Problem, match="without solutions"):
        folder.solution(exercise("attn.self"))
