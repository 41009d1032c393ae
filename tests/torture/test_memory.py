"""Out of memory, at any step and for real: one line, nothing half written, and the run goes on to the same bits."""

from pathlib import Path

import pytest

from torture.harness import SHARE, Forks, Tally, chance, count
from torture.test_kills import compare, finish, unbroken

NAMES = ["parity", "language", "translate", "ppo"] if SHARE else ["parity"]
MESSAGES = {
    "torch": "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried to allocate",
    "python": "",
    "cuda": "CUDA out of memory. Tried to allocate 20.00 MiB",
}


def starved_verb(words: list[str], at: int, message: str) -> None:
    """In a child: a command in which memory is short when a module is called for the k-th time."""
    from torch import nn

    from torture.works import verb

    calls = 0
    usual = nn.Module.__call__

    def scarce(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            raise RuntimeError(message) if message else MemoryError
        return usual(*arguments, **options)

    nn.Module.__call__ = scarce  # type: ignore[method-assign]
    verb(words)


def bounded_verb(words: list[str], megabytes: int) -> None:
    """In a child: a command that gets only so much more memory than it has."""
    import resource

    from torture.works import verb

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    verb(words)


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_short_at_some_call(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    work, expected, _ = unbroken(name, forks, bases)
    random = chance("memory", name)
    for round in range(count(30, 3)):
        folder, kind = tmp_path / f"round-{round}", list(MESSAGES)[round % 3]
        call = int(random.integers(1, 150))
        words = list(work.begin)
        ended = forks.run("torture.test_memory:starved_verb", folder, words=words, at=call, message=MESSAGES[kind])
        tally.check(ended, 0, 2)
        if ended.code == 2 and "out of memory" not in ended.err:
            tally.found("tracebacks", f"{ended.words}: {ended.err}")
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, {kind}, call {call}", tally)
        tally.add("shortages")


@pytest.mark.parametrize("size", [48, 96, 192] if SHARE else [96])
def test_memory_has_a_limit(size: int, forks: Forks, tmp_path: Path, tally: Tally) -> None:
    """A model and a batch that need more than there is."""
    larger = {
        "model": ["model.width=8192", "model.layers=4"],
        "batch": ["train.batch_size=2000", "data.length=200", "data.examples=2500", "model.width=64"],
    }
    few = ["train.steps=2", "model.heads=2", "train.warmup=1"]
    for name, words in larger.items():
        all_words = ["train", "parity", *few, *words, "--out", "run"]
        ended = forks.run("torture.test_memory:bounded_verb", tmp_path / name, words=all_words, megabytes=size)
        tally.check(ended, 2)
        tally.add("shortages")
