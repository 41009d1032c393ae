"""Atomic writes: a file or a folder is complete or not there, whatever happens while it is written."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from headway.config.errors import Problem


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Write a temporary file inside the ``with`` block; after it, the file is synced and gets its name."""
    temporary = path.with_name(f".writing-{path.name}")
    try:
        temporary.unlink(missing_ok=True)  # of a kill, or a link to somewhere else
        yield temporary
        sync(temporary)
        temporary.replace(path)
    except OSError as error:
        raise Problem(f"cannot write {path}: {error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_whole(path: Path, text: str) -> None:
    with new_file(path) as temporary:
        temporary.write_text(text)


@dataclass
class NewFolder:
    path: Path  # a temporary folder inside the ``with`` block, the final one after it


@contextmanager
def new_folder(
    path: Path,
    alternatives: Iterable[Path] = (),
    mode: int = 0o755,
    durable: bool = False,
    replace: bool = False,
) -> Iterator[NewFolder]:
    """Fill a temporary folder and, if that succeeds, rename it to the first free name: ``path`` or an alternative.

    ``durable`` syncs it to the disk first; ``replace`` removes a folder that already has the name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=path.parent))
    folder = NewFolder(temporary)
    try:
        temporary.chmod(mode)
        yield folder
        if durable:
            for written in (*temporary.iterdir(), temporary):
                sync(written)
        if replace and path.exists():
            remove_folder(path)
        folder.path = rename_to_first_free(temporary, chain([path], alternatives))
        if durable:
            sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def rename_to_first_free(path: Path, names: Iterable[Path]) -> Path:
    taken: OSError | None = None
    for name in names:
        try:
            return path.rename(name)
        except OSError as error:
            if not name.exists():
                raise
            taken = error
    raise taken or AssertionError("there is at least one name")


def remove_folder(path: Path) -> None:
    """Rename it first, so that nothing half-removed ever has its name."""
    shutil.rmtree(path.rename(path.with_name(f".removing-{path.name}")), ignore_errors=True)


def sync(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Read in pieces: the file may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
