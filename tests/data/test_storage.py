"""Files are written whole or not at all, and only over files."""

import errno
import os
import stat
from pathlib import Path

import pytest

from headway.api.files import write_lines
from headway.config.errors import Problem
from headway.data import storage
from headway.data.storage import write_whole


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


def test_what_is_no_file_is_not_written_over(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Problem, match="it is not a regular file"):
        write_whole(pipe, "text")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]
