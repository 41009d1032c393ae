"""What this machine can hold. Costs are estimated from shapes before anything is allocated, and from below: what is
refused could not have worked."""

import os
from contextlib import suppress
from pathlib import Path

from headway.config.errors import Problem

MEMORY, OWN = Path("/proc/meminfo"), Path("/proc/self/statm")
CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def free_memory() -> int | None:
    """The bytes that this process can have: those that are free, and those it has, which it may use again. None where
    the system does not tell."""
    try:
        lines = (line.split() for line in MEMORY.read_text().splitlines())
        free = {words[0]: 1024 * int(words[1]) for words in lines}
        own = int(OWN.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        limits = [free["MemAvailable:"] + free["SwapFree:"] + own]
    except (OSError, KeyError, IndexError, ValueError):
        return None
    for path in CONTAINER:
        with suppress(OSError, ValueError):  # no container, or one without a limit, whose limit is "max"
            limits.append(int(path.read_text()))
    return min(limits)


def refuse_beyond(free: int | None, needed: int, what: str, place: str = "this machine") -> None:
    """``what`` says what needs the memory, as the subject of a sentence."""
    if free is not None and needed > free:
        has = f"{place} has {gigabytes(free)} free"
        raise Problem(f"{what} needs at least {gigabytes(needed)}, and {has}: make it smaller")


def gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
