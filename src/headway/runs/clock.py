"""The clock of a run: how long it has trained, and with ``train.minutes``, how many steps there will be.

    steps = step * limit / (seconds so far + those of a step)

The schedule is asked for this many steps, so the learning rate is at its end when the time is over, on a busy machine,
too. Rates then depend on the clock, and a run from the beginning does not have the same bits again. But what the clock
said at each step is in clock.jsonl before the step begins: a run that is resumed repeats the steps since its checkpoint
as they were, to the same bits, and goes on with the time that is left.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from headway.config.errors import Problem
from headway.config.json_files import NUMBER, fits, parse_json, read_text
from headway.config.recipe import TrainSpec

CLOCK = "clock.jsonl"
SHAPE = {"step": int, "steps": NUMBER, "seconds": NUMBER, "minutes": NUMBER, "most": int}
MOST_BYTES = 1 << 30
RECENT = 10  # steps, of which the mean is how long the next one takes
FORWARD = 1 / 3  # of the time of a training step: what an evaluation takes for as many examples, until it is measured


class Clock:
    def __init__(
        self,
        spec: TrainSpec,
        folder: Path,
        evaluated: float,
        writes: bool = True,
        share: Callable[[float], float] = lambda steps: steps,
    ):
        """``evaluated`` is the number of batches in an evaluation, about; ``share`` gives all processes the number of
        the first one, which ``writes``."""
        self.spec, self.path, self.evaluated, self.writes, self.share = spec, folder / CLOCK, evaluated, writes, share
        self.limit = None if spec.minutes is None else 60 * spec.minutes
        self.began = perf_counter()
        self.total: float = spec.steps  # steps of the whole run, as far as is known
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.evaluation: float | None = None  # seconds
        self.decided: dict[int, float] = {}
        self.spent = 0.0  # seconds at the last record
        self.file: TextIO | None = None

    def start(self, seconds: float) -> None:
        """Begin, or go on after so many seconds; those that were lost by a kill count, too."""
        if self.limit is not None:
            for record in records(self.path):
                self.spent = max(self.spent, record["seconds"])
                if (record["minutes"], record["most"]) == (self.spec.minutes, self.spec.steps):
                    self.decided[record["step"]] = record["steps"]
        self.began = perf_counter() - max(seconds, self.spent)

    def stop(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    @property
    def seconds(self) -> float:
        return perf_counter() - self.began

    @property
    def seconds_left(self) -> float | None:
        return None if self.limit is None else max(self.limit - self.seconds, 0.0)

    def steps_at(self, number: int) -> float:
        """The number of steps of the whole run, as known at the beginning of this one; at the last, its number."""
        if self.limit is None:
            return self.spec.steps
        total = self.decided.get(number)
        if total is None:
            total = self.share(self.estimate(number, self.limit))
            self.record(number, total)
        self.total = total
        return total

    def estimate(self, number: int, limit: float) -> float:
        step = sum(self.recent) / max(len(self.recent), 1)
        reserve = min(self.evaluated * step * FORWARD, limit / 4) if self.evaluation is None else self.evaluation
        left, spent = limit - reserve, self.seconds
        if number >= self.spec.steps or spent + 1.5 * step >= left:
            return number
        return min(number * left / max(spent + step, 1e-9), self.spec.steps)

    def is_last(self, number: int) -> bool:
        return number >= self.spec.steps or number >= self.total

    def saw(self, number: int, seconds: float) -> None:
        """How long a step took; the first one also sets things up."""
        if len(self.recent) == 1 and number == 2:
            self.recent.clear()
        self.recent.append(seconds)

    def evaluated_in(self, seconds: float) -> None:
        self.evaluation = max(seconds, self.evaluation or 0.0)

    def record(self, number: int, total: float) -> None:
        if not self.writes:
            return
        values = {"step": number, "steps": total, "seconds": self.seconds}
        line = json.dumps(values | {"minutes": self.spec.minutes, "most": self.spec.steps})
        try:
            if self.file is None:
                self.file = self.path.open("a", encoding="utf-8")
                self.file.write("\n" * (self.path.stat().st_size > 0))  # the last line may be cut off
            self.file.write(line + "\n")
            self.file.flush()
        except OSError as error:
            raise Problem(f"cannot write {self.path}: {error}") from error


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Those that are whole: a kill may cut the last one off."""
    try:
        lines = read_text(path, MOST_BYTES, errors="replace").splitlines() if path.exists() else []
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read: {error}") from None
    for line in filter(str.strip, lines):
        try:
            record = parse_json(line)
        except ValueError:
            continue
        if fits(record, SHAPE):
            yield record
