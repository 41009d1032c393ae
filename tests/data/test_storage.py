"""Files are written whole or not at all, and only over files."""

import ast
import errno
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from headway.api.files import write_lines
from headway.config.errors import Problem
from headway.data import storage
from headway.data.storage import write_array, write_whole
from test_house import FILES


@pytest.mark.parametrize("place", ["write_text", "sync", "replace"])
def test_a_full_disk_leaves_the_file_as_it_was(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_whole(path, "before")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(storage if place == "sync" else Path, place, full)
        with pytest.raises(Problem, match=r"cannot write .*results\.json: .*No space left on device"):
            write_whole(path, "after")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["results.json"]
    write_lines(path, ["after", "that"])
    assert path.read_text() == "after\nthat\n"


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("largest", [100, 130, 300])  # within the header, at its end, within the numbers
def test_an_array_is_written_whole_or_refused(largest: int, tmp_path: Path) -> None:
    array = np.arange(60).reshape(12, 5)
    with limited(largest), pytest.raises(OSError, match="File too large"):
        write_array(tmp_path / "array.npy", array)
    write_array(tmp_path / "array.npy", array)
    assert np.array_equal(np.load(tmp_path / "array.npy"), array)


def test_arrays_are_written_in_one_place() -> None:
    """What numpy writes to a file by itself may be lost."""
    calls = {
        path.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and (node.attr == "tofile" or ast.unparse(node) == "np.save")
    }
    assert calls == {"storage.py"}


def test_what_is_no_file_is_not_written_over(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Problem, match="it is not a regular file"):
        write_whole(pipe, "text")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]
