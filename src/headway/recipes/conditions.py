"""Defaults that depend on what a recipe is used for: ``[when.small.model]`` in its file holds where there is little
text, ``[when.start.train]`` where it starts from another run. Settings that are given always win."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headway.config.errors import BadSetting, did_you_mean
from headway.data.files import COMPRESSIONS

Tree = dict[str, Any]
FILES = ("train", "source", "target")  # data settings that name files to train on
PACKED = 3  # times its size is what a compressed file has, about
SMALL, MEDIUM = 1_000_000, 8_000_000  # bytes of text


def text_size(tree: Tree) -> int | None:
    """The bytes to train on, about; None: there are no files yet."""
    data = tree.get("data", {})
    names = [name.strip() for key in FILES for name in str(data.get(key, "")).split(",") if name.strip()]
    paths = [Path(name) for name in names if os.path.isfile(name)]
    sizes = [path.stat().st_size * (PACKED if path.suffix.lower() in COMPRESSIONS else 1) for path in paths]
    return sum(sizes) if sizes else None


def has_start(tree: Tree) -> bool:
    return tree.get("start") not in (None, "", "none")


def is_small(tree: Tree) -> bool:
    return (size := text_size(tree)) is not None and size < SMALL


def is_medium(tree: Tree) -> bool:
    return (size := text_size(tree)) is not None and SMALL <= size < MEDIUM


CONDITIONS: dict[str, Callable[[Tree], bool]] = {"start": has_start, "small": is_small, "medium": is_medium}


def apply_conditions(tree: Tree, given: set[str]) -> None:
    """Take ``when`` out of the recipe, and set what holds, but for the keys that are ``given``."""
    for name, sections in tree.pop("when", {}).items():
        if name not in CONDITIONS:
            raise BadSetting(f"when.{name}", f"no such condition; {did_you_mean(name, CONDITIONS)}")
        if not isinstance(sections, Mapping) or not all(isinstance(each, Mapping) for each in sections.values()):
            raise BadSetting(f"when.{name}", f"has sections of settings, such as [when.{name}.train]")
        if not CONDITIONS[name](tree):
            continue
        for section, values in sections.items():
            chosen = {key: value for key, value in values.items() if f"{section}.{key}" not in given}
            if {"train.steps", "train.epochs"} & given:
                chosen = {key: value for key, value in chosen.items() if key not in ("steps", "epochs")}
            tree[section] = tree.get(section, {}) | chosen
