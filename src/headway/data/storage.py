"""Atomic writes: a file or a folder is complete or not there, whatever happens while it is written."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import time
from types import SimpleNamespace

import numpy as np

from headway.config.errors import Problem

SETTLED = 60.0  # seconds after which a new folder surely has its lock
MANY = 1000  # files to sync one by one


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Write a temporary file inside the ``with`` block; after it, the file is synced and gets its name."""
    temporary = path.with_name(f".writing-{path.name}")
    if path.exists() and not path.is_file():  # such as /dev/null, which would become a file
        raise Problem(f"cannot write {path}: it is not a regular file")
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
        temporary.write_text(text, encoding="utf-8")


def write_array(path: Path, array: np.ndarray) -> None:
    """The format of numpy.save, which on its own loses small arrays on a full disk without an error: given a file, it
    writes past Python, and what is left in a buffer when it closes the file is gone."""
    with path.open("wb") as file:
        np.save(SimpleNamespace(write=file.write), array, allow_pickle=False)


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
    missing = [each for each in (path.parent, *path.parent.parents) if not each.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=path.parent))
    folder, lock = NewFolder(temporary), hold(temporary)
    try:
        temporary.chmod(mode)
        yield folder
        if durable:
            sync_all(temporary)
        if replace and path.exists():
            remove_folder(path)
        folder.path = rename_to_first_free(temporary, chain([path], alternatives))
        if durable:
            for named in (path, *missing):
                sync(named.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def hold(path: Path) -> int:
    """Show other processes that this one uses it, until it ends or closes the returned descriptor."""
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # not every file system has locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_held(path: Path) -> bool:
    """Whether a process holds it. Looking opens nothing for writing, so that it works in folders of others."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def sweep(folder: Path, settled: float = SETTLED) -> None:
    """Remove what writes and removals of processes that are gone have left behind."""
    for leftover in (*folder.glob(".new-*"), *folder.glob(".removing-*")):
        with suppress(OSError):  # another process sweeps here as well
            if time() - leftover.stat().st_mtime > settled and not is_held(leftover):
                shutil.rmtree(leftover, ignore_errors=True)


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
    temporary = Path(tempfile.mkdtemp(prefix=".removing-", dir=path.parent))
    path.rename(temporary / path.name)
    shutil.rmtree(temporary, ignore_errors=True)


def sync(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """A folder with everything in it; the whole system, if there are thousands of files, which is quicker."""
    inside = list(folder.rglob("*"))
    if len(inside) > MANY:
        os.sync()
        return
    for path in (*inside, folder):
        sync(path)


def sha256_of(path: Path) -> str:
    """Read in pieces: the file may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
