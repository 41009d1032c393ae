"""What is held out to measure on: files of their own, or a share of the training data (``data.validation=0.1``)."""

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.data.corpus import cut


def share(text: str, key: str) -> float | None:
    """``0.1`` is a share; anything else is a file."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 < value < 1:
        raise BadSetting(key, f"a share of {text} is not between 0 and 1")
    return value


def held_out(data: Any) -> dict[str, tuple[str, float | None]]:
    """By its use, what a setting says, and the share that it is, if it is one."""
    asked = {"validation": data.validation, "test": data.test}
    return {use: (text, share(text, f"data.{use}")) for use, text in asked.items() if text}


def named_files(data: Any) -> dict[str, str]:
    return {use: text for use, (text, part) in held_out(data).items() if part is None}


def shares_of(data: Any, files: Container[str]) -> dict[str, float]:
    """For the uses that have no file of their own."""
    shares = {use: part for use, (_, part) in held_out(data).items() if part is not None and use not in files}
    if sum(shares.values()) >= 1:
        raise BadSetting("data.validation", f"the shares set apart leave nothing to train on: {shares}")
    return shares


def in_parts(groups: np.ndarray, shares: Mapping[str, float], file: object, what: str) -> dict[str, np.ndarray]:
    """The rows of a file of texts or pairs, say, as masks: those set apart, and those to train on."""
    parts = dict(zip([*shares, "train"], cut(groups, list(shares.values())), strict=True))
    for use, rows in parts.items():
        if not rows.any():
            found = f"{len(groups):,} {what} in {len(np.unique(groups)):,} groups (equal ones are one)"
            raise Problem(
                f"{file}: its {found} are too few to cut: none are left for {use}; give a file, or another share"
            )
    return parts
