"""Training as a person sees it: one live line in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from rich.text import Text

from headway.cli.render import console, dim, duration, metric_blocks, note, print_block, print_next
from headway.data.files import Progress, silent
from headway.metrics import worst

if TYPE_CHECKING:
    from rich.table import Table

    from headway.runs.fit import Fit
    from headway.runs.pipeline import Callbacks
    from headway.training.loop import Step

QUIET = 10.0  # seconds between plain lines when there is no evaluation


@contextmanager
def bars() -> Iterator[Progress]:
    """A progress bar for each thing that is read, downloaded or encoded; none outside of a terminal."""
    if not console.is_terminal:
        yield silent
        return
    from rich import progress

    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=console, transient=True) as shown:
        tasks: dict[str, progress.TaskID] = {}

        def show(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=1.0)
            shown.update(tasks[what], completed=share)

        yield show


def following(briefly: bool = False) -> "Callbacks":
    """How runs are trained from the command line; ``briefly``: one of many, without its own report."""
    from headway.runs.pipeline import Callbacks

    return Callbacks(bars, console.print, follow_briefly if briefly else follow)


def follow(fit: "Fit") -> None:
    """Train to the end and report the results."""
    folder = fit.run.folder
    if not fit.fabric.is_global_zero:  # one of several processes: only the first one prints
        for _ in fit.steps():
            pass
        sys.exit()
    size = sum(weight.numel() for weight in fit.model.parameters())
    console.print(f"{fit.recipe.name}: {size:,} parameters, {len(fit.splits.train):,} examples, in {folder}")
    if fit.spec.batch_tokens is not None:
        console.print(
            f"an epoch: {fit.sampler.steps_in(1):,} batches, bucketed by length, {fit.sampler.padding():.1%} padding"
        )
    for message in fit.notes:
        note(message)
    if fit.progress.ended:
        console.print("already done: nothing left to train")
    elif fit.progress.step:
        console.print(f"resuming after step {fit.progress.step:,}")
    else:
        for good, message in fit.preflight():
            console.print(dim(f"preflight: {message}")) if good else note(f"preflight: {message}")
    follow_steps(fit)
    if fit.interrupted is not None:
        console.print(f"stopped at step {fit.progress.step:,} and saved")
        print_next("headway", "resume", folder)
        sys.exit(128 + fit.interrupted)
    results = fit.run.results
    console.print(
        f"{results['ended']} after {duration(results['seconds'])}; "
        f"tested with the weights of step {results['weights_of_step']:,}"
    )
    if not console.quiet:
        for block in metric_blocks(results["test"]):
            print_block(block)


def follow_briefly(fit: "Fit") -> None:
    follow_steps(fit, lines=False)


def follow_steps(fit: "Fit", lines: bool = True) -> None:
    """Train to the end, showing the steps; without ``lines``, only as a live line in a terminal."""
    line = Line(fit.spec.steps, fit.progress.step)
    if console.is_terminal:
        from rich.live import Live

        with Live(console=console, auto_refresh=False, transient=True) as live:
            for step in fit.steps():
                line.see(step)
                show_alarms(fit, step)
                if line.since_shown() > 0.1:
                    live.update(line.with_bar(), refresh=True)
    else:
        for step in fit.steps():
            line.see(step)
            show_alarms(fit, step)
            if lines and (step.validation is not None or line.since_shown() > QUIET):
                console.print(line.text())


def show_alarms(fit: "Fit", step: "Step") -> None:
    for message in fit.alarms if step.validation is not None else ():
        note(f"step {step.number:,}: {message}")


class Line:
    """Step, time left, loss, metrics, learning rate, tokens per second."""

    def __init__(self, steps: int, done: int):
        self.steps, self.done = steps, done
        self.began = self.shown = perf_counter()
        self.tokens = 0
        self.metrics = ""

    def see(self, step: "Step") -> None:
        self.step = step
        self.tokens += step.tokens
        if step.validation is not None:
            names = [name for name in next(iter(step.validation.values())) if name not in ("loss", "examples")]
            self.metrics = "".join(f"  {name} {worst(name, step.validation):.4f}" for name in names)

    def since_shown(self) -> float:
        return perf_counter() - self.shown

    def text(self) -> str:
        self.shown = perf_counter()
        spent = self.shown - self.began
        left = spent / (self.step.number - self.done) * (self.steps - self.step.number)
        return (
            f"step {self.step.number:,}/{self.steps:,}  {duration(left)} left  loss {self.step.loss:.4f}"
            f"{self.metrics}  learning rate {self.step.learning_rate:.1e}  {self.tokens / spent:,.0f} tokens/s"
        )

    def with_bar(self) -> "Table":
        """Always one line: the bar takes the space that is left, and what does not fit is cut off."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        text = Text(self.text(), no_wrap=True, overflow="ellipsis")
        table = Table.grid(padding=(0, 1))
        room = min(20, console.width - len(text) - 1)
        if room >= 5:
            table.add_row(ProgressBar(self.steps, self.step.number, width=room), text)
        else:
            table.add_row(text)
        return table
