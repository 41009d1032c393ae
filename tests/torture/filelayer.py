"""A layer between a process and its files: it sees every operation that changes something below a folder, before it is
carried out, and may tear it, refuse it, send a signal or kill the process instead.
"""

import builtins
import errno
import io
import json
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import safetensors.numpy
import safetensors.torch

from torture.works import verb

NAMES = ("rename", "replace", "mkdir", "rmdir", "unlink", "remove", "fsync")
WRITES = ("write", "save")  # operations that can be torn


def nothing() -> None:
    pass


@dataclass(frozen=True)
class Operation:
    number: int  # from 0 on
    kind: str
    path: str
    to: str = ""  # of a renamed file
    tear: Callable[[], None] = nothing  # carry out half of it


class FileLayer:
    """A context manager; ``at`` is called with each operation before it is carried out."""

    def __init__(self, root: Path, at: Callable[[Operation], None]):
        self.root, self.at, self.number = str(root.resolve()), at, 0
        self.is_quiet = False

    def see(self, kind: str, path: Any, to: Any = "", tear: Callable[[], None] = nothing) -> None:
        path, to = os.path.abspath(os.fsdecode(path)), to and os.path.abspath(os.fsdecode(to))
        if self.is_quiet or not path.startswith(self.root):
            return
        self.is_quiet = True
        try:
            self.at(Operation(self.number, kind, path, to, tear))
        finally:
            self.is_quiet = False
            self.number += 1

    def __enter__(self) -> "FileLayer":
        self.patches = [patch.object(os, name, partial(self.call, name, getattr(os, name))) for name in NAMES]
        for module in (safetensors.torch, safetensors.numpy):
            self.patches.append(patch.object(module, "serialize_file", partial(self.save, module.serialize_file)))
        for module in (io, builtins):
            self.patches.append(patch.object(module, "open", partial(self.open, io.open)))
        for each in self.patches:
            each.start()
        return self

    def __exit__(self, *error: object) -> None:
        for each in self.patches:
            each.stop()

    def call(self, kind: str, function: Callable[..., Any], path: Any, *more: Any, **options: Any) -> Any:
        if kind == "fsync":
            place = os.readlink(f"/proc/self/fd/{path if isinstance(path, int) else path.fileno()}")
        elif options.get("dir_fd") is not None:  # how shutil.rmtree names what it removes
            place = os.path.join(os.readlink(f"/proc/self/fd/{options['dir_fd']}"), path)
        else:
            place = path
        self.see(kind, place, more[0] if kind in ("rename", "replace") else "")
        return function(path, *more, **options)

    def save(self, function: Callable[..., Any], tensors: Any, path: Any, **options: Any) -> Any:
        def tear() -> None:
            function(tensors, path, **options)
            os.truncate(path, os.path.getsize(path) // 2)

        self.see("save", path, tear=tear)
        return function(tensors, path, **options)

    def open(self, function: Callable[..., Any], path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        if isinstance(path, int) or not set(mode) & set("wax+") or self.is_quiet:
            return function(path, mode, *more, **options)
        place = os.path.abspath(os.fsdecode(path))
        if not place.startswith(self.root):
            return function(path, mode, *more, **options)
        self.see("open", place)
        binary = "".join(letter for letter in mode if letter in "wax+")
        buffered: Any = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(SeenFile(place, binary, layer=self))
        if "b" in mode:
            return buffered
        text: dict[str, Any] = dict(zip(("buffering", "encoding", "errors", "newline"), more, strict=False)) | options
        return io.TextIOWrapper(buffered, text.get("encoding"), text.get("errors"), text.get("newline"))


class SeenFile(io.FileIO):
    def __init__(self, path: str, mode: str, layer: FileLayer):
        super().__init__(path, mode)
        self.path, self.layer = path, layer

    def write(self, content: Any) -> int:
        self.layer.see("write", self.path, tear=lambda: self.write_half(content))
        return super().write(content)

    def write_half(self, content: Any) -> None:
        super().write(bytes(content)[: len(content) // 2])


def counted_verb(words: list[str]) -> None:
    """In a child: a command that leaves behind a list of its operations."""
    seen: list[str] = []
    try:
        with FileLayer(Path(), lambda operation: seen.append(f"{operation.kind} {operation.path} {operation.to}")):
            verb(words)
    finally:
        Path("operations.json").write_text(json.dumps(seen))


def killed_verb(words: list[str], at: int, torn: bool) -> None:
    """In a child: a command that is killed before, or in the midst of, its k-th operation."""

    def kill(operation: Operation) -> None:
        if operation.number == at:
            if torn:
                operation.tear()
            os.kill(os.getpid(), signal.SIGKILL)

    with FileLayer(Path(), kill):
        verb(words)


def signalled_verb(words: list[str], at: int, number: int) -> None:
    """In a child: a command that gets a signal at its k-th operation."""

    def send(operation: Operation) -> None:
        if operation.number == at:
            os.kill(os.getpid(), number)

    with FileLayer(Path(), send):
        verb(words)


def refused_verb(words: list[str], at: int, code: str, lasting: bool) -> None:
    """In a child: a command whose k-th operation fails, such as with ENOSPC; ``lasting``, if all later ones do, too."""
    number = getattr(errno, code)

    def refuse(operation: Operation) -> None:
        needs_room = operation.kind not in ("unlink", "remove", "rmdir")
        if needs_room and (operation.number == at or (lasting and operation.number > at)):
            operation.tear()
            raise OSError(number, os.strerror(number))

    with FileLayer(Path(), refuse):
        verb(words)


def recorded_verb(words: list[str]) -> None:
    """In a child: a command that leaves behind a log for ``disk.Disk``: what was done, and what was synced."""
    log: list[tuple[str, str, str, str | None]] = []
    root = Path().resolve()

    def note(operation: Operation) -> None:
        path, to = (str(Path(each).relative_to(root)) if each else "" for each in (operation.path, operation.to))
        is_file = operation.kind == "fsync" and Path(operation.path).is_file()
        log.append((operation.kind, path, to, Path(operation.path).read_bytes().hex() if is_file else None))

    try:
        with FileLayer(Path(), note):
            verb(words)
    finally:
        Path("operations.json").write_text(json.dumps(log))


def limited_verb(words: list[str], largest: int) -> None:
    """In a child: a command that cannot write beyond so many bytes of a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    verb(words)
