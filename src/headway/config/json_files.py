"""Reading the files of a run folder, which may come from anybody: nothing is read that has no end or is too large, and
nothing is used that has another shape than expected."""

import json
import stat
from pathlib import Path
from typing import Any

from headway.config.errors import Problem

NUMBER = int | float
MOST_BYTES = 1 << 27  # of a file of text


def refuse_odd_file(path: Path, most: int = MOST_BYTES) -> None:
    """Reading a pipe or a device would hang; raises OSError."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise OSError(f"{path.name} is not a regular file")
    if about.st_size > most:
        raise OSError(f"{path.name} has {about.st_size:,} bytes, more than {most:,}")


def read_text(path: Path, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """Raises OSError or ValueError."""
    refuse_odd_file(path, most)
    return path.read_text(encoding="utf-8", errors=errors)


def parse_json(text: str) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def load_json(path: Path, shape: Any = object) -> Any:
    """The content of a file, which ``fits`` a shape; raises OSError or ValueError."""
    content = parse_json(read_text(path))
    if not fits(content, shape):
        raise ValueError(f"expected {described(shape)}")
    return content


def read_json(path: Path, shape: Any = object) -> Any:
    """The same; raises a Problem."""
    try:
        return load_json(path, shape)
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def fits(value: Any, shape: Any) -> bool:
    """Whether parsed JSON has a shape: a type or a union of types, a list of one shape, or a dict of the keys that have
    to be there. The key ``str`` stands for all other keys."""
    if isinstance(shape, dict):
        is_complete = isinstance(value, dict) and shape.keys() - {str} <= value.keys()
        return is_complete and all(fits(value[key], shape.get(key, shape.get(str, object))) for key in value)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    if isinstance(value, bool):
        return shape in (bool, object)
    return isinstance(value, shape)


def known_fields(value: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """Those that a shape names."""
    return {key: value[key] for key in shape}


def described(shape: Any) -> str:
    """``{"step": int, str: float}`` is ``{step: int, ...: float}``."""
    if isinstance(shape, dict):
        pairs = (f"{'...' if key is str else key}: {described(value)}" for key, value in shape.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(shape, list):
        return f"[{described(shape[0])}, ...]"
    return getattr(shape, "__name__", str(shape))
