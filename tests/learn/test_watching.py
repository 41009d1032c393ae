"""The watch mode: by its keys, and in a terminal."""

import os
import pty
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome
from headway.config.errors import Problem
from headway.learn.catalogue import exercise
from headway.learn.folder import Folder
from headway.learn.watching import Watch


def texts(blocks: object) -> str:
    return "\n".join(str(block) for block in blocks)  # type: ignore[attr-defined]


def test_from_the_first_to_the_third_exercise_by_keys_alone(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "learn", ["start.hello", "mask.causal", "mask.padding"])
    watch = Watch(folder)
    first = texts(watch.check())
    assert "Solved: press n" in first
    assert "1 of 3" in first
    assert "mask.causal" in texts(watch.press("n"))
    assert not watch.has_changed()
    assert "hint 1 of 3" in texts(watch.press("h"))
    with pytest.raises(Problem, match="2 more hints"):
        texts(watch.press("s"))
    path = folder.file(watch.current)
    path.write_text(watch.current.solved(1))
    os.utime(path, ns=(0, 0))  # whatever the clock says, it is another time
    assert watch.has_changed()
    assert "2 of 3" in texts(watch.check())
    assert "tril" in texts(watch.press("s"))
    assert "mask.padding" in texts(watch.press("n"))
    assert "x mask.causal" in texts(watch.press("l"))
    assert "mask.causal" in texts(watch.press("p"))
    assert "nothing has been written yet" in texts(watch.press("x"))
    assert texts(watch.press("?")) == ""
    watch.folder.file(watch.current).unlink()
    assert watch.has_changed()
    assert "cannot be read" in texts(watch.press("r"))
    assert not watch.done
    texts(watch.press("q"))
    assert watch.done


def test_at_the_end(tmp_path: Path) -> None:
    watch = Watch(Folder.create(tmp_path / "learn", ["start.hello"]))
    texts(watch.check())
    assert "All exercises are solved" in texts(watch.press("n"))


def test_without_a_keyboard_it_checks_once(headway: Callable[..., Outcome]) -> None:
    outcome = headway("learn")
    assert outcome.code == 0
    assert "exercises are in the folder learn" in outcome.out
    assert "Checking start.hello" in outcome.out


def test_in_a_terminal(tmp_path: Path) -> None:
    Folder.create(tmp_path / "learn", ["start.hello", "mask.causal"])
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "headway", "learn"])
    seen = read_until(terminal, "press n")
    os.write(terminal, b"n")
    seen += read_until(terminal, "nothing has been written yet")
    (tmp_path / "learn" / exercise("mask.causal").file).write_text(exercise("mask.causal").solved(1))
    seen += read_until(terminal, "2 of 2")
    os.write(terminal, b"sq")
    seen += read_until(terminal, "continues from here")
    assert "tril" in seen
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def read_until(terminal: int, text: str) -> str:
    seen, deadline = "", time.monotonic() + 40
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        assert ready, seen
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen
