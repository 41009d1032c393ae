"""A soak: train, evaluate, generate and resume in turn, in one process that grows no fatter and keeps nothing open."""

import gc
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from torture.harness import SHARE, Forks, Tally

SECONDS = 1200 * SHARE if SHARE else 12.0
WARM = 60.0 if SHARE * 1200 > 180 else SECONDS / 2  # until every kind of memory has been used once
MOST = 0.02 if SHARE else 0.04  # growth of memory; a short soak says less


def test_soak(forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    child = forks.start("torture.test_soak:soak", tmp_path, letters=str(bases / "letters" / "run"))
    ended = child.wait(2 * SECONDS + 60)
    tally.check(ended, 0)
    if ended.code == 0:
        rounds, fatter, before, after = ended.out.splitlines()[-1].split(";")
        tally.add("rounds", int(rounds))
        if float(fatter) > MOST:
            tally.found("wrong loads", f"memory has grown by {float(fatter):.1%} over {rounds} rounds")
        if before != after:
            tally.found("wrong loads", f"files and threads were {before}, and are {after}")


def soak(letters: str) -> None:
    """In a child: prints the number of rounds, the growth of memory after it was warm, and what was open."""
    began, rounds, warm, memory, opened = time.monotonic(), 0, 0, [0.0], ""
    while time.monotonic() - began < SECONDS:
        one_round(letters, Path(f"round-{rounds % 3}"))
        rounds += 1
        memory.append(resident())
        if time.monotonic() - began < WARM:
            warm, opened = rounds, str(open_now())
    before, after = max(memory[: warm + 1]), max(memory[warm + 1 :])
    print(f"{rounds};{after / before - 1};{opened};{open_now()}")


def one_round(letters: str, folder: Path) -> None:
    import headway as hw

    shutil.rmtree(folder, ignore_errors=True)
    model = {"layers": 1, "width": 16, "heads": 2}
    sizes = {"data.examples": 200, "data.tests": 40, "train.checkpoint_every": 2, "train.warmup": 1}
    for step in hw.fit("parity", model=model, train={"steps": 12}, settings=sizes, out=folder):
        if step.number == 7:
            break
    run = hw.Run(folder)
    run.resume()
    run.evaluate()
    trained = hw.load(folder)
    trained.predict(["0101", "1"])
    writer = hw.load(letters)
    writer.generate("ab", max_new_tokens=12)
    writer.beam_search("ab", num_beams=2, max_new_tokens=8)


def resident() -> float:
    """Without what the collector of cycles has not come to yet: it runs when there is a quarter more of that."""
    gc.collect()
    return float(Path("/proc/self/statm").read_text().split()[1])


def open_now() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.mark.skipif(not SHARE, reason="a leak is found by the soak above")
def test_a_leak_is_found(forks: Forks, tmp_path: Path) -> None:
    """The soak can fail."""
    ended = forks.run("torture.test_soak:leak", tmp_path)
    assert ended.code == 0, ended
    fatter, before, after = ended.out.split(";")
    assert float(fatter) > MOST
    assert before != after


def leak() -> None:
    memory, opened = resident(), open_now()
    kept = [bytearray(1 << 20) for _ in range(64)], Path("leak").open("w")  # noqa: SIM115
    print(f"{resident() / memory - 1};{opened};{open_now()}")
    del kept
