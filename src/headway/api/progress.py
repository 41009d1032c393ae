"""What a person sees while data are read and a run is trained: a live line in a terminal, a bar in a notebook, plain
lines elsewhere."""

import html
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headway.api.settings import about_data
from headway.config.errors import visible
from headway.data.files import Progress, silent
from headway.metrics import worst
from headway.metrics.terminal import Console
from headway.runs.clock import Clock
from headway.runs.fit import Fit
from headway.runs.pipeline import Reporter, Silent
from headway.runs.rehearsal import expected_seconds
from headway.training.loop import Step

if TYPE_CHECKING:
    from rich.table import Table

QUIET = 10.0  # seconds between plain lines when there is no evaluation
SHORT = 20.0  # seconds, which nobody needs to know of before
REFRESH = 0.1  # seconds between updates of a live line


def reporter(progress: "bool | Reporter | None", brief: bool = False) -> Reporter:
    """True shows progress, False does not, and None shows it to a person: in a terminal or a notebook. ``brief`` is for
    one of many runs, without a line of its own."""
    if progress is None:
        progress = in_notebook() or sys.stderr.isatty()
    if progress is False:
        return Silent()
    if progress is not True:
        return progress
    return Notebook(brief) if in_notebook() else Terminal(Console(stderr=True), brief)


def in_notebook() -> bool:
    """Whether IPython runs this code in a kernel, as Jupyter does, and not in a terminal."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


class Terminal:
    """A live line that is gone at the end; without a terminal, plain lines. A line with the results stays."""

    def __init__(self, console: Console, brief: bool = False):
        self.console, self.brief = console, brief

    @contextmanager
    def reading(self) -> Iterator[Progress]:
        """A progress bar for each thing that is read, downloaded or encoded; none outside of a terminal."""
        if not self.console.is_terminal:
            yield silent
            return
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=self.console, transient=True) as shown:
            tasks: dict[str, progress.TaskID] = {}

            def show(what: str, share: float) -> None:
                if what not in tasks:
                    tasks[what] = shown.add_task(about_data(what), total=1.0)
                shown.update(tasks[what], completed=share)

            yield show

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

    def note(self, message: str) -> None:
        self.console.print(Text.assemble(("note: ", "yellow"), about_data(message)), soft_wrap=True)

    def follow(self, fit: Fit) -> None:
        if not self.brief:
            for message in fit.notes:
                self.note(message)
            if (line := outlook(fit)) is not None:
                self.say(line)
        self.show_steps(fit)
        if not self.brief and fit.interrupted is None:
            self.say(outcome(fit))

    def show_steps(self, fit: Fit) -> None:
        line = Line(fit.spec.steps, fit.progress.step, fit.clock)
        if self.console.is_terminal:
            from rich.live import Live

            with Live(console=self.console, auto_refresh=False, transient=True) as live:
                for step in fit:
                    line.see(step)
                    self.show_alarms(fit, step)
                    if line.since_shown() > REFRESH:
                        live.update(line.with_bar(self.console.width), refresh=True)
            return
        for step in fit:
            line.see(step)
            self.show_alarms(fit, step)
            if not self.brief and (step.validation is not None or line.since_shown() > QUIET):
                self.say(line.text())

    def show_alarms(self, fit: Fit, step: Step) -> None:
        for message in fit.alarms if step.validation is not None else ():
            self.note(f"step {step.number:,}: {message}")


class Notebook:
    """One line of HTML that is updated, and says the results at the end."""

    def __init__(self, brief: bool = False):
        self.brief = brief

    @contextmanager
    def reading(self) -> Iterator[Progress]:
        handle = shown_html("")

        def show(what: str, share: float) -> None:
            handle.update(as_html(bar(share, about_data(what))))

        yield show
        handle.update(as_html(""))

    def say(self, line: str) -> None:
        print(visible(line))

    def follow(self, fit: Fit) -> None:
        notes = [] if self.brief else [f"note: {about_data(message)}" for message in fit.notes]
        line, handle = Line(fit.spec.steps, fit.progress.step, fit.clock), shown_html("")
        for step in fit:
            line.see(step)
            if step.validation is not None:
                notes += [f"step {step.number:,}: {message}" for message in fit.alarms]
            if line.since_shown() > REFRESH:
                handle.update(as_html(with_notes(bar(line.share, line.text()), notes)))
        ended = "" if fit.interrupted is not None else html.escape(outcome(fit))
        handle.update(as_html(with_notes("" if self.brief else ended, notes)))


def shown_html(text: str) -> Any:
    from IPython.display import display

    return display(as_html(text), display_id=True)


def as_html(text: str) -> Any:
    from IPython.display import HTML

    return HTML(text)


def bar(share: float, text: str) -> str:
    return f'<progress value="{share:.3f}" style="width:12em"></progress> <code>{html.escape(text)}</code>'


def with_notes(line: str, notes: list[str]) -> str:
    return "<br>".join([line, *(f"<small>{html.escape(note)}</small>" for note in notes)])


def outlook(fit: Fit) -> str | None:
    """How long a run will take, if it takes long."""
    seconds = expected_seconds(fit)
    if seconds is None or seconds < SHORT:
        return None
    steps = f"{fit.spec.steps:,} steps"
    limit = "" if fit.spec.minutes is not None else "; train.minutes=N sets a limit"
    return f"about {duration(seconds)} on this machine for {steps}, with {fit.parameters:,} parameters{limit}"


def outcome(fit: Fit) -> str:
    """A run that is done, in one line."""
    results, names = fit.run.results, fit.task.metric_names
    scores = "; ".join(
        f"{name} " + ", ".join(f"{metric} {metrics[metric]:.4f}" for metric in names if metric in metrics)
        for name, metrics in results["test"].items()
    )
    return f"{fit.run.folder}: {results['steps']:,} steps in {duration(results['seconds'])}; {scores}"


class Line:
    """Step, time left, loss, metrics, learning rate, tokens per second."""

    def __init__(self, steps: int, done: int, clock: Clock | None = None):
        self.most, self.done, self.clock = steps, done, clock
        self.began = self.shown = perf_counter()
        self.tokens = 0
        self.metrics = ""

    def see(self, step: Step) -> None:
        self.step = step
        self.tokens += step.tokens
        if step.validation is not None:
            names = [name for name in next(iter(step.validation.values())) if name not in ("loss", "examples")]
            self.metrics = "".join(f"  {name} {worst(name, step.validation):.4f}" for name in names)

    def since_shown(self) -> float:
        return perf_counter() - self.shown

    @property
    def steps(self) -> int:
        """Of the whole run: with a time limit, about as many as it allows."""
        return self.most if self.clock is None else max(round(self.clock.total), self.step.number)

    @property
    def share(self) -> float:
        return self.step.number / self.steps

    def text(self) -> str:
        self.shown = perf_counter()
        spent = self.shown - self.began
        left = spent / (self.step.number - self.done) * (self.steps - self.step.number)
        if self.clock is not None and self.clock.seconds_left is not None:
            left = min(left, self.clock.seconds_left)
        about = "about " * (self.steps < self.most)
        return (
            f"step {self.step.number:,}/{about}{self.steps:,}  {duration(left)} left  loss {self.step.loss:.4f}"
            f"{self.metrics}  learning rate {self.step.learning_rate:.1e}  {self.tokens / spent:,.0f} tokens/s"
        )

    def with_bar(self, width: int) -> "Table":
        """Always one line: the bar takes the space that is left, and what does not fit is cut off."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        text = Text(self.text(), no_wrap=True, overflow="ellipsis")
        table = Table.grid(padding=(0, 1))
        room = min(20, width - len(text) - 1)
        if room >= 5:
            table.add_row(ProgressBar(self.steps, self.step.number, width=room), text)
        else:
            table.add_row(text)
        return table


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
