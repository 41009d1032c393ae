"""Unpacking and reading writes nothing outside of its folder, and holds its limits."""

import resource
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from headway.config.errors import Problem
from headway.data.download import unpack
from headway.data.files import silent
from headway.data.readers import Format, delimited, json_lines, plain_lines, whole_file
from torture.archives import ARCHIVES, COMPRESSED, HARMLESS, MOST_BYTES, MOST_FILES, written

SECONDS, MEMORY = 2.0, 300 << 20


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text("precious")
    (tmp_path / "inside" / "target").mkdir(parents=True)
    return tmp_path / "inside" / "target"


@pytest.mark.parametrize("name", [*ARCHIVES, *HARMLESS])
def test_a_hostile_archive_stays_inside(name: str, place: Path) -> None:
    archive = place / "archive"
    archive.write_bytes((ARCHIVES | HARMLESS)[name]())
    content, memory, began = archive.read_bytes(), peak(), process_time()
    if name in ARCHIVES:
        with pytest.raises(Problem, match="the archive cannot be unpacked") as error:
            unpack(archive, place, MOST_BYTES, MOST_FILES)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 300
    else:
        unpack(archive, place, MOST_BYTES, MOST_FILES)
    assert process_time() - began < SECONDS
    assert peak() - memory < MEMORY
    files = written(place)
    assert all(path.is_file() and not path.is_symlink() and path.stat().st_nlink == 1 for path in files)
    assert sum(path.stat().st_size for path in files if path != archive) <= MOST_BYTES
    assert all(path.stat().st_mode & 0o7111 == 0 for path in files)
    assert archive.read_bytes() == content
    assert written(place.parent.parent) == sorted([*files, place.parent.parent / "outside.txt"])
    assert (place.parent.parent / "outside.txt").read_text() == "precious"
    assert not Path("/tmp/headway-canary").exists()


@pytest.mark.parametrize(
    ("suffix", "read"), [(".gz", plain_lines), (".xz", delimited), (".bz2", json_lines), (".zst", whole_file)]
)
def test_a_compressed_bomb_is_refused(suffix: str, read: Any, tmp_path: Path) -> None:
    path = tmp_path / f"texts.txt{suffix}"
    path.write_bytes(COMPRESSED[suffix](b"a" * (1 << 20)))
    memory, began = peak(), process_time()
    with pytest.raises(Problem):
        for _ in read(path, Format(), silent):
            pass
    assert process_time() - began < SECONDS
    assert peak() - memory < MEMORY
