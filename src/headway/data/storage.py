"""Files that are whole or not there, whatever happens while they are written."""

import hashlib
import os
from pathlib import Path

from headway.config.errors import Problem


def write_whole(path: Path, text: str) -> None:
    """Written beside, synced, and renamed."""
    beside = path.with_name(f".writing-{path.name}")
    try:
        beside.write_text(text)
        sync(beside)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Problem(f"cannot write {path}: {error}") from error


def sync(path: Path) -> None:
    """Have the system write a file, or a folder's list of names, to the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Of a file that may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
