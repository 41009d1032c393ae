"""The metrics log of a run: ``metrics.jsonl``, one record per line, and the same for TensorBoard, which is loaded only
where a run is trained."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.config.errors import Problem
from headway.config.json_files import NUMBER, fits, parse_json, read_text
from headway.data.storage import write_whole
from headway.training.loop import Step, unbroken

METRICS = "metrics.jsonl"
MOST_BYTES = 1 << 32
VALUES = {str: NUMBER}
TRAIN, VALIDATION = {"step": int, "train": VALUES}, {"step": int, "seconds": NUMBER, "validation": {str: VALUES}}


class MetricsLog:
    """A context manager; ``write`` appends records."""

    def __init__(self, folder: Path, done: int = 0):
        """Records of steps after ``done``, from before an interruption, are removed: they will be written again."""
        self.path, self.done = folder / METRICS, done
        kept = [record for record in read_records(self.path) if record["step"] <= done]
        write_whole(self.path, "".join(json.dumps(record) + "\n" for record in kept))
        self.file = self.path.open("a")

    def write_step(self, step: Step, every: int, seconds: float) -> None:
        """Log the training loss ``every`` few steps, and every evaluation with the training time so far."""
        if step.number % every == 0:
            speed = step.tokens / step.seconds
            rates = {"learning_rate": step.learning_rate, "gradient_norm": step.gradient_norm}
            self.write(step.number, {"train": {"loss": step.loss, **rates, "tokens_per_second": round(speed)}})
        if step.validation is not None:
            self.write(step.number, {"validation": step.validation}, seconds=round(seconds, 2))

    def write_outcome(self, settings: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        """For TensorBoard's page of hyperparameters: the run's settings and its results."""
        from torch.utils.tensorboard.summary import hparams

        plain = {key: value if isinstance(value, (bool, int, float)) else str(value) for key, value in settings.items()}
        values = dict(flatten(metrics))
        _, begin, end = hparams(plain, values)  # without the first, TensorBoard compares all runs of a folder
        with unbroken():
            for summary in (begin, end):
                self.board._get_file_writer().add_summary(summary)
            for name, value in values.items():
                self.board.add_scalar(name, value)

    def write(self, step: int, values: Mapping[str, Any], **more: Any) -> None:
        try:
            self.file.write(json.dumps({"step": step, **more, **values}) + "\n")
            self.file.flush()
            for name, value in flatten(values):
                self.board.add_scalar(name, value, step)
        except OSError as error:
            raise Problem(f"cannot write {self.path}: {error}") from error

    def sync(self) -> None:
        """Before a checkpoint: no loss of power leaves one that knows of steps which the log does not have."""
        try:
            os.fsync(self.file.fileno())
        except OSError as error:
            raise Problem(f"cannot write {self.path}: {error}") from error

    def __enter__(self) -> "MetricsLog":
        from torch.utils.tensorboard import SummaryWriter

        self.hook, threading.excepthook = threading.excepthook, self.in_thread  # before TensorBoard's thread begins
        try:
            self.board = SummaryWriter(str(self.path.parent / "tensorboard"), purge_step=self.done + 1)
        except OSError as error:
            threading.excepthook = self.hook
            raise Problem(f"cannot write {self.path.parent}: {error}") from error
        return self

    def in_thread(self, failure: Any) -> None:
        """What TensorBoard's thread fails with is raised again at the next ``write``."""
        from tensorboard.summary.writer.event_file_writer import _AsyncWriterThread

        if not (isinstance(failure.exc_value, OSError) and isinstance(failure.thread, _AsyncWriterThread)):
            self.hook(failure)

    def __exit__(self, *error: object) -> None:
        self.file.close()
        try:
            with unbroken():
                self.board.close()
        except OSError as failure:
            if error[0] is None:
                raise Problem(f"cannot write {self.path.parent}: {failure}") from failure
        finally:
            threading.excepthook = self.hook


def flatten(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    """``{"validation": {"accuracy": 1.0}}`` is ``("validation/accuracy", 1.0)``."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{path}{name}/")
        else:
            yield path + name, value


def validations(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """The steps of a run's evaluations, and the metrics on its first validation set."""
    for record in read_records(path):
        if record.get("validation"):
            yield record["step"], next(iter(record["validation"].values()))


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """All records of a run; an incomplete last line, from a crash, is skipped."""
    try:
        lines = read_text(path, MOST_BYTES, errors="replace").splitlines() if path.exists() else []
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line)
        except ValueError:
            if number == len(lines):
                return
            record = None
        if not fits(record, VALIDATION if isinstance(record, dict) and "validation" in record else TRAIN):
            raise Problem(f"{path}, line {number}: not a record of metrics; fix or remove the line")
        yield record
