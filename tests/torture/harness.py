"""What the torture tests share: how much of it, by which seed, children that can be killed, limits, and the table.

HEADWAY_TORTURE is the share of the full counts, 1 for all of them; without it, each row tries a few.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

SHARE = float(os.environ.get("HEADWAY_TORTURE") or 0)
SEED = int(os.environ.get("HEADWAY_SEED") or 0)
PATIENCE = 60.0  # seconds until a child has hung: the machine may be busy with other things
COUNTED = ("tracebacks", "hangs", "wrong loads")


def count(full: int, small: int) -> int:
    """How often a test tries something: ``full`` times with HEADWAY_TORTURE=1, ``small`` times in ``make test``."""
    return max(small, round(SHARE * full)) if SHARE else small


def chance(*names: object) -> np.random.Generator:
    """Random numbers that follow from the seed and these names."""
    return np.random.default_rng([SEED, *(sum(str(name).encode()) for name in names)])


@dataclass
class Tally:
    """What one test did, for the table."""

    row: str
    did: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, what: str, number: int = 1) -> None:
        self.did[what] += number

    def found(self, kind: str, message: str) -> None:
        """Note a fault of one of the kinds that are COUNTED; the test fails at its end with the first ones."""
        self.did[kind] += 1
        self.wrong.append(f"{kind}: {message}")

    def check(self, ended: "Ended", *codes: int) -> None:
        """An end with one of these exit codes, and without a traceback."""
        if ended.code is None:
            self.found("hangs", ended.words)
        elif "Traceback" in ended.err or (codes and ended.code not in codes):
            self.found("tracebacks", f"{ended.words}: exit code {ended.code}: {ended.err[-1500:]}")


@dataclass(frozen=True)
class Ended:
    """How a child ended: ``code`` is negative for a signal, None if it hung."""

    words: str
    code: int | None
    out: str
    err: str


class Child:
    def __init__(self, forks: "Forks", process: int, folder: Path, words: str):
        self.forks, self.process, self.folder, self.words = forks, process, folder, words

    def send(self, number: int) -> None:
        os.kill(self.process, number)  # until it is waited for, nobody else gets its number

    def wait(self, seconds: float = PATIENCE) -> Ended:
        code = self.forks.ask(wait=self.process, seconds=seconds)
        if code is None:
            self.send(signal.SIGKILL)
            self.forks.ask(wait=self.process, seconds=PATIENCE)
        out, err = ((self.folder / name).read_text(errors="replace") for name in ("out", "err"))
        return Ended(self.words, code, out, err)


class Forks:
    """Children of a warm process; see forkserver."""

    def __init__(self) -> None:
        path = os.pathsep.join(each for each in sys.path if each)
        surroundings = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": path}
        self.server = subprocess.Popen(
            [sys.executable, "-m", "torture.forkserver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | surroundings,
            text=True,
            bufsize=1,
        )

    def ask(self, **request: Any) -> Any:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        return json.loads(self.server.stdout.readline())

    def start(self, call: str, folder: Path, **arguments: Any) -> Child:
        """``call`` is module:function; the child works in the folder, with a cache beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        where = {"folder": str(folder), "cache": str(folder / "cache")}
        words = f"{folder.name}: {' '.join(map(str, arguments.values()))[:300]}"
        return Child(self, self.ask(call=call, arguments=arguments, **where), folder, words)

    def run(self, call: str, folder: Path, **arguments: Any) -> Ended:
        return self.start(call, folder, **arguments).wait()

    def close(self) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait(PATIENCE)


class Hang(BaseException):
    """Something took longer than it may."""


@contextmanager
def limits(seconds: float, megabytes: int = 500) -> Iterator[None]:
    """What happens inside takes at most so much time of a processor, or five times that on the clock, and so much more
    memory than the process has now."""

    def stop(*arguments: object) -> None:
        raise Hang(f"more than {seconds} s")

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, 5 * seconds))
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    handlers = [(timer, number, signal.signal(number, stop)) for timer, number, _ in timers]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (megabytes << 20), before[1]))
    for timer, _, most in timers:
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for timer, number, handler in handlers:
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def attempt(tally: Tally, what: str, call: Callable[[], Any], seconds: float = 2.0) -> Any:
    """What the call gives, or the Problem that it raises; anything else is a fault."""
    from headway.config.errors import Problem

    try:
        with limits(seconds):
            return call()
    except Problem as problem:
        return problem
    except Hang as hang:
        tally.found("hangs", f"{what}: {hang}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a library in Rust is no Exception
        tally.found("tracebacks", f"{what}: {type(error).__name__}: {str(error)[:500]}")
    return None


def wait_until(true: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def table(rows: dict[str, Counter[str]]) -> list[str]:
    """The table of counts, as docs/reliability.md shows it."""
    lines = [
        f"| row | tried | {' | '.join(COUNTED)} |",
        f"| --- | --- | {' | '.join('---:' for _ in COUNTED)} |",
    ]
    for row, did in sorted(rows.items()):
        tried = ", ".join(f"{number:,} {what}" for what, number in did.items() if what not in COUNTED)
        lines.append(f"| {row} | {tried} | {' | '.join(str(did[kind]) for kind in COUNTED)} |")
    return lines
