"""Two processes on one folder: one of them trains, the other says who does; readers read whole states, always."""

import time
from pathlib import Path

import pytest

from torture.harness import Forks, Tally, chance, count, wait_until
from torture.test_kills import compare, finish, unbroken
from torture.works import OFTEN, PARITY, PLAIN, SMALL

LONG = [*PARITY, *SMALL, *OFTEN, *PLAIN, "train.steps=400", "train.checkpoint_every=1"]


@pytest.mark.parametrize("name", ["parity", "classify"])
def test_two_resume_one_run(name: str, forks: Forks, bases: Path, tmp_path: Path, tally: Tally) -> None:
    """Started a moment apart, or after the first one was killed: exactly one trains, or the second comes too late."""
    work, expected, seconds = unbroken(name, forks, bases)
    random = chance("writers", name)
    for round in range(count(100, 3)):
        folder = tmp_path / f"round-{round}"
        first = forks.start("torture.works:verb", folder, words=list(work.begin))
        assert wait_until((folder / "run" / "lock").exists)
        (tmp_path / "others").mkdir(exist_ok=True)
        other = forks.start("torture.works:verb", tmp_path / "others", words=["resume", str(folder / "run")])
        killed = random.random() < 0.3
        if killed:
            time.sleep(random.uniform(0, 0.3 * seconds))
            first.send(9)
        one, two = first.wait(), other.wait()
        tally.check(one, 0, 2, -9)
        tally.check(two, 0, 2)
        if two.code == 2 and "is being trained" not in two.err:
            tally.found("tracebacks", f"{two.words}: {two.err}")
        if one.code == two.code == 2:
            tally.found("wrong loads", f"{name}, round {round}: neither of two trained")
        finish(work, folder, forks, tally)
        compare(expected, folder, f"{name}, round {round}", tally)
        tally.add("double starts")


def test_a_second_one_is_refused(forks: Forks, tmp_path: Path, tally: Tally) -> None:
    first = forks.start("torture.works:verb", tmp_path / "first", words=["train", "parity", *LONG, "--out", "run"])
    folder = tmp_path / "first" / "run"
    assert wait_until((folder / "checkpoints").exists)
    for number in range(count(30, 1)):
        second = forks.run("torture.works:verb", tmp_path / f"second-{number}", words=["resume", str(folder)])
        is_over = (folder / "results.json").exists()
        tally.check(second, 0, 2) if is_over else tally.check(second, 2)
        if not is_over and "is being trained" not in second.err:
            tally.found("tracebacks", f"{second.words}: {second.err}")
        tally.add("double starts")
    first.send(9)
    first.wait()


def test_two_start_with_one_name(forks: Forks, tmp_path: Path, tally: Tally) -> None:
    """Both train, each in a folder of its own."""
    words = ["train", "parity", *PARITY, *SMALL, *OFTEN, *PLAIN, "--out", "run"]
    for round in range(count(30, 2)):
        folder = tmp_path / f"round-{round}"
        for child in [forks.start("torture.works:verb", folder, words=words) for _ in range(3)]:
            tally.check(child.wait(), 0)
        names = sorted(path.name for path in folder.glob("run*"))
        if names != ["run", "run-2", "run-3"] or any(not (folder / name / "results.json").exists() for name in names):
            tally.found("wrong loads", f"round {round}: {names}")
        tally.add("double starts")


def test_readers_while_it_trains(forks: Forks, tmp_path: Path, tally: Tally) -> None:
    """A checkpoint every step, of which only two are kept, while another process reads all that can be read."""
    writer = forks.start("torture.works:verb", tmp_path / "writer", words=["train", "parity", *LONG, "--out", "run"])
    folder = tmp_path / "writer" / "run"
    assert wait_until((folder / "checkpoints").exists)
    time.sleep(0.2)
    readers = [
        forks.start(
            "torture.test_writers:read_again_and_again", tmp_path / f"reader-{number}", run=str(folder), seconds=each
        )
        for number, each in enumerate([count(60, 3)] * 2)
    ]
    for reader in readers:
        ended = reader.wait(120)
        tally.check(ended, 0)
        tally.add("reads", int(ended.out.split()[-1]) if ended.code == 0 else 0)
    writer.send(9)
    writer.wait()


def read_again_and_again(run: str, seconds: float) -> None:
    """In a child: what readers call, in turn; prints how often."""
    from headway.runs.run import Run
    from headway.training.metrics_log import METRICS, read_records

    until, reads, last = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        reader = Run(run)
        assert reader.summary()["state"] in ("being trained", "done", "can be resumed"), reader.summary()
        step = reader.final_checkpoint().step
        assert step >= last, f"step {step} after step {last}"
        assert not reader.notes, reader.notes
        numbers = [record["step"] for record in read_records(reader.folder / METRICS)]
        assert numbers == sorted(numbers)
        last, reads = step, reads + 3
    print(reads)
