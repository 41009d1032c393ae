"""How training looks as it goes: one live line in a terminal, plain lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from rich import progress
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headway.cli.output import console, duration, note
from headway.data.files import Progress, silent
from headway.metrics import worst

if TYPE_CHECKING:
    from headway.runs.fit import Fit
    from headway.training.loop import Step

QUIET = 10.0  # plain lines come with evaluations, and after so many seconds without one


@contextmanager
def bars() -> Iterator[Progress]:
    """A bar for each thing that is read, fetched or encoded, as long as it takes; none where there is no terminal."""
    if not console.is_terminal:
        yield silent
        return
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=console, transient=True) as shown:
        tasks: dict[str, progress.TaskID] = {}

        def show(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=1.0)
            shown.update(tasks[what], completed=share)

        yield show


def follow_steps(session: "Fit", lines: bool = True) -> None:
    """Train to the end, showing each step as it passes; without ``lines``, only where the line can be live."""
    line = Line(session.spec.steps, session.progress.step)
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            for step in session.steps():
                line.see(step)
                alarm(session, step)
                if line.since_shown() > 0.1:
                    live.update(line.with_bar(), refresh=True)
    else:
        for step in session.steps():
            line.see(step)
            alarm(session, step)
            if lines and (step.validation is not None or line.since_shown() > QUIET):
                console.print(line.text())


def alarm(session: "Fit", step: "Step") -> None:
    """Say what is wrong as soon as an evaluation shows it."""
    for message in session.alarms if step.validation is not None else ():
        note(f"step {step.number:,}: {message}")


class Line:
    """Step, loss, accuracy, learning rate, tokens a second, time left."""

    def __init__(self, steps: int, done: int):
        self.steps, self.done = steps, done
        self.began = self.shown = perf_counter()
        self.tokens = 0
        self.scores = ""

    def see(self, step: "Step") -> None:
        self.step = step
        self.tokens += step.tokens
        if step.validation is not None:
            names = [name for name in next(iter(step.validation.values())) if name not in ("loss", "examples")]
            self.scores = "".join(f"  {name} {worst(name, step.validation):.4f}" for name in names)

    def since_shown(self) -> float:
        return perf_counter() - self.shown

    def text(self) -> str:
        self.shown = perf_counter()
        spent = self.shown - self.began
        left = spent / (self.step.number - self.done) * (self.steps - self.step.number)
        return (
            f"step {self.step.number:,}/{self.steps:,}  {duration(left)} left  loss {self.step.loss:.4f}{self.scores}  "
            f"learning rate {self.step.learning_rate:.1e}  {self.tokens / spent:,.0f} tokens/s"
        )

    def with_bar(self) -> Table:
        """One line, whatever the width: the bar takes what is left over, and what does not fit is cut off."""
        text = Text(self.text(), no_wrap=True, overflow="ellipsis")
        table = Table.grid(padding=(0, 1))
        room = min(20, console.width - len(text) - 1)
        if room >= 5:
            table.add_row(ProgressBar(self.steps, self.step.number, width=room), text)
        else:
            table.add_row(text)
        return table
