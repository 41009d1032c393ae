"""The cache: results that took time to compute, each in a folder whose name is a hash of everything it depends on."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers

from headway.config.errors import Problem
from headway.data.storage import new_folder

VERSION = 1  # raise it whenever the same files would be read or encoded differently


def cache_folder() -> Path:
    """``HEADWAY_CACHE``, or the user's cache folder."""
    named = os.environ.get("HEADWAY_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "headway"


def key_of(**inputs: Any) -> str:
    """A hash of everything that a result depends on, the version of this code included."""
    inputs |= {"version": VERSION, "tokenizers": tokenizers.__version__}
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()[:32]


def kept(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The cached folder with this key; if there is none yet, ``make`` fills it."""
    path = cache_folder() / kind / key
    if path.is_dir():
        return path
    try:
        with new_folder(path, mode=0o700, durable=True) as new:
            make(new.path)
    except OSError as error:
        if path.is_dir():  # another process was faster, with the same result
            return path
        raise Problem(
            f"cannot write to the cache {path.parent}: {error}; set HEADWAY_CACHE to another folder"
        ) from None
    return new.path
