"""A folder in which things that took time to make are kept, each under a key that names all that it was made from."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers

from headway.config.errors import Problem

VERSION = 1  # to be raised whenever the same files would be read or encoded in another way


def cache_folder() -> Path:
    """``HEADWAY_CACHE``, or the usual place for caches."""
    named = os.environ.get("HEADWAY_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "headway"


def key_of(**parts: Any) -> str:
    """Of all that something was made from, this program's way of making it included."""
    parts |= {"version": VERSION, "tokenizers": tokenizers.__version__}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def kept(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder of this key. If there is none, ``make`` fills an empty one, which then gets its name: it is whole or
    not there."""
    place = cache_folder() / kind / key
    if place.is_dir():
        return place
    beside = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
        make(beside)
        try:
            return beside.rename(place)
        except OSError:
            if place.is_dir():  # another process was quicker, with the same
                return place
            raise
    except OSError as error:
        raise Problem(
            f"cannot write to the cache {place.parent}: {error}; set HEADWAY_CACHE to another folder"
        ) from None
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
