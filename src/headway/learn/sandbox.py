"""Running what a stranger wrote: in a process of its own, with limits of time, memory and output, which may start no
processes, write no files, open no connections, and not read how it is checked.

Verdicts are never taken from that process: it returns numbers, and these are judged outside.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

PACKAGE = Path(__file__).parent.parent
OWN = "headway.learn"
REFUSED = (
    *("os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system", "subprocess.", "pty.spawn"),
    *("socket.", "ctypes.dlopen", "os.kill", "os.remove", "os.rename", "os.rmdir", "shutil.", "resource."),
)
MOST_RESULT = 1 << 26  # bytes
MOST_FILES = 1 << 12  # that a process has open
TELLING: list[int] = []  # in the process itself: where the result goes


@dataclass(frozen=True)
class Limits:
    seconds: float = 10.0
    memory: int = 2 << 30  # bytes, beside those of this process
    output: int = 1 << 20  # bytes
    files: int = 0  # bytes of a file that the work itself may write: above 0, it is the library's own code


@dataclass(frozen=True)
class Ran:
    result: bytes | None  # None: there is none, for this reason
    reason: str = ""
    printed: str = ""


def run(work: Callable[[], bytes], limits: Limits | None = None, heard: Callable[[bytes], None] | None = None) -> Ran:
    """The result of a function in a process of its own; ``heard`` is called with what it tells on its way."""
    limits = limits or Limits()
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as output:
        with warnings.catch_warnings():  # of forking with threads, of which the child uses none
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(reader)
            live(work, writer, output.fileno(), limits)
        os.close(writer)
        try:
            result, in_time = receive(reader, limits.seconds, heard)
        finally:
            os.close(reader)
            end(child)
            _, status = os.waitpid(child, 0)
        output.seek(0)
        printed = output.read(4000).decode(errors="replace")
        written = os.fstat(output.fileno()).st_size
    if written >= limits.output:
        return Ran(None, f"it prints more than {limits.output >> 20} MiB", printed[:400])
    if not in_time:
        why = "" if limits.files else ": is there an endless loop?"
        return Ran(None, f"it is not done after {limits.seconds:g} seconds{why}", printed)
    if os.WIFSIGNALED(status) and not result:
        return Ran(None, f"its process was ended by signal {os.WTERMSIG(status)}", printed)
    return Ran(result, "" if result else "it ended the process instead of returning", printed)


def receive(reader: int, seconds: float, heard: Callable[[bytes], None] | None = None) -> tuple[bytes, bool]:
    """What is written until the other end closes, and whether that was in time. With ``heard``, lines before the last
    one are told on the way."""
    result, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and len(result) <= MOST_RESULT:
        ready, _, _ = select.select([reader], [], [], left)
        if not ready:
            continue
        piece = os.read(reader, 1 << 20)
        if not piece:
            return result, True
        result += piece
        while heard is not None and b"\n" in result:
            line, _, result = result.partition(b"\n")
            heard(line)
    return b"", False


def tell(line: bytes) -> None:
    """From within: a line to the process outside. Only work of the library's own may tell something."""
    os.write(TELLING[0], line + b"\n")


def end(child: int) -> None:
    """With all that it may have started."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


def live(work: Callable[[], bytes], writer: int, output: int, limits: Limits) -> NoReturn:
    """The life of the child."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        for stream in (1, 2):
            os.dup2(output, stream)
        os.closerange(3, writer)  # what the parent has open is not for strangers
        os.closerange(writer + 1, MOST_FILES)
        sys.stdin = open(os.devnull)  # noqa: SIM115 (for as long as the process lives)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
        import torch

        torch.set_num_threads(1)  # threads of the parent are not here
        limit(limits)
        if limits.files:
            TELLING[:] = [writer]
        else:
            sys.addaudithook(refuse)
        answer = work()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        while answer:
            answer = answer[os.write(writer, answer) :]
    except BaseException:
        os._exit(1)
    os._exit(0)


def die_with_parent() -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        on_death_of_parent = 1  # a constant of sys/prctl.h
        prctl(on_death_of_parent, signal.SIGKILL)


def limit(limits: Limits) -> None:
    seconds = int(limits.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    largest = max(limits.output, limits.files)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (own + limits.memory,) * 2)


def refuse(event: str, given: tuple[Any, ...]) -> None:
    """An audit hook: Python asks it before it does any of these things, and it cannot be removed."""
    if event.startswith(REFUSED):
        raise PermissionError(f"a check allows no {event.rstrip('.')}")
    if event == "import" and str(given[0]).startswith(OWN):
        raise PermissionError("a check does not show how it checks")
    if event == "open":
        path, mode, flags = given
        writes = any(letter in str(mode or "") for letter in "wax+") or int(flags or 0) & (os.O_WRONLY | os.O_RDWR)
        if writes and path != os.devnull and not isinstance(path, int):
            raise PermissionError("a check allows no writing of files")
        if str(path).endswith(".py") and str(path).startswith(str(PACKAGE)):
            raise PermissionError("a check allows no reading of the library's own files")
