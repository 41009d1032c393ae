"""Ways to damage a checkpoint, each a function of its folder and of random numbers that says what it did."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.storage import sha256_of
from headway.training.checkpoint import MANIFEST, STATE

Random = np.random.Generator
JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    2.5,
    1e308,
    float("nan"),
    10**30,
    "",
    "x",
    "../x",
    "\x1b[31m",
    [],
    [1],
    {},
    {"a": 1},
]


def any_file(folder: Path, random: Random) -> Path:
    return sorted(folder.iterdir())[int(random.integers(len(list(folder.iterdir()))))]


def flip(folder: Path, random: Random) -> str:
    path = any_file(folder, random)
    content = bytearray(path.read_bytes())
    place, bit = int(random.integers(len(content))), int(random.integers(8))
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {place} of {path.name}"


def zero(folder: Path, random: Random) -> str:
    """A block that was never written; at least one of its bytes was not zero."""
    path = any_file(folder, random)
    content = path.read_bytes()
    place = int(random.integers(len(content)))
    size = min(int(random.integers(1, 513)), len(content) - place)
    if not any(content[place : place + size]):
        return flip(folder, random)
    path.write_bytes(content[:place] + bytes(size) + content[place + size :])
    return f"{size} zeros at byte {place} of {path.name}"


def truncate(folder: Path, random: Random) -> str:
    path = any_file(folder, random)
    size = int(random.integers(path.stat().st_size))
    os.truncate(path, size)
    return f"only {size} bytes of {path.name}"


def append(folder: Path, random: Random) -> str:
    path = any_file(folder, random)
    with path.open("ab") as file:
        file.write(random.bytes(int(random.integers(1, 100))))
    return f"more bytes after {path.name}"


def swap(folder: Path, random: Random) -> str:
    first, second = (sorted(folder.iterdir())[place] for place in random.choice(len(os.listdir(folder)), 2, False))
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    return f"{first.name} and {second.name} change places"


def remove(folder: Path, random: Random) -> str:
    path = any_file(folder, random)
    path.unlink()
    return f"no {path.name}"


def of_another_step(folder: Path, random: Random) -> str:
    """A file of another checkpoint: it is whole, and does not belong here."""
    other = next(each for each in sorted(folder.parent.iterdir()) if each != folder)
    path = any_file(folder, random)
    shutil.copy(other / path.name, path)
    return f"{path.name} of {other.name}"


def as_folder(folder: Path, random: Random) -> str:
    path = any_file(folder, random)
    path.unlink()
    path.mkdir()
    return f"{path.name} is a folder"


DAMAGES: list[Callable[[Path, Random], str]] = [
    *(flip, zero, truncate, append, swap, remove, of_another_step, as_folder),
]


def device(folder: Path, random: Random) -> str:
    path, target = any_file(folder, random), str(random.choice(["/dev/zero", "/dev/random", "/dev/null", "/dev/full"]))
    path.unlink()
    path.symlink_to(target)
    return f"{path.name} is {target}"


def pipe(folder: Path, random: Random) -> str:
    path = any_file(folder, random)
    path.unlink()
    os.mkfifo(path)
    return f"{path.name} is a pipe that nobody writes to"


def link(folder: Path, random: Random) -> str:
    """To the same content elsewhere, to a link that leads to itself, or to nothing."""
    path = any_file(folder, random)
    elsewhere = folder.parent.parent / f"elsewhere-{path.name}"
    shutil.copy(path, elsewhere)
    target = [elsewhere, path, Path("nothing")][int(random.integers(3))]
    path.unlink()
    path.symlink_to(target)
    return f"{path.name} is a link to {target}"


def deep(folder: Path, random: Random) -> str:
    path = folder / str(random.choice([MANIFEST, STATE]))
    depth = int(random.choice([2000, 100_000]))
    path.write_text(str(random.choice(["[", '{"a":'])) * depth)
    if path.name == STATE:
        remake_hashes(folder)
    return f"{path.name} of depth {depth}"


def other_names(folder: Path, random: Random) -> str:
    manifest = json.loads((folder / MANIFEST).read_text())
    name = str(
        random.choice(["../../recipe.toml", "/etc/passwd", "/dev/zero", "a/../../b", "", ".", "x\0y", "n" * 5000])
    )
    manifest[name] = str(random.choice(list(manifest.values())))
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return f"the manifest lists {name[:40]!r}"


SPECIAL = [device, pipe, link, deep, other_names]


def remake_hashes(folder: Path) -> None:
    manifest = {path.name: sha256_of(path) for path in folder.iterdir() if path.is_file() and path.name != MANIFEST}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def mutated(value: Any, random: Random) -> Any:
    """Junk in one place of a tree of JSON."""
    if isinstance(value, dict | list) and value and random.random() < 0.8:
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        place: Any = (
            list(value)[int(random.integers(len(value)))]
            if isinstance(value, dict)
            else int(random.integers(len(value)))
        )
        if random.random() < 0.15:
            del copy[place]
        else:
            copy[place] = mutated(copy[place], random)
        return copy
    return JUNK[int(random.integers(len(JUNK)))]


def junk_in_json(folder: Path, random: Random) -> str:
    """Values of other types, in a state that has the right hash or in the manifest."""
    path = folder / str(random.choice([MANIFEST, STATE, STATE]))
    value = mutated(json.loads(path.read_text()), random)
    path.write_text(json.dumps(value))
    if path.name == STATE:
        remake_hashes(folder)
    return f"{path.name} is {json.dumps(value)[:300]}"
