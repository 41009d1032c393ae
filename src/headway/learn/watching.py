"""The watch mode: save a file, and it is checked again; one key for each thing to do. Here is what the terminal shows,
which itself is the command line's business."""

from collections.abc import Callable, Iterator

from rich.console import RenderableType
from rich.text import Text

from headway.data.files import Progress, silent
from headway.learn.exercise import Exercise, Report
from headway.learn.folder import Folder
from headway.learn.showing import progress_bar, shown

Blocks = Iterator[RenderableType]
KEYS = {
    "n": "next",
    "p": "previous",
    "h": "hint",
    "s": "solution",
    "l": "list",
    "r": "run again",
    "x": "reset",
    "q": "quit",
}


class Watch:
    def __init__(self, folder: Folder, only: Exercise | None = None, progress: Progress = silent):
        self.folder, self.progress = folder, progress
        self.current = only or next(folder.open_exercises(), folder.exercises[0])
        self.report: Report | None = None
        self.saved = self.time()
        self.done = False
        self.keys: dict[str, Callable[[], Blocks]] = {
            **{"n": self.go_on, "p": self.go_back, "h": self.hint, "s": self.solution, "l": self.list},
            **{"r": self.check, "x": self.reset, "q": self.quit},
        }

    def time(self) -> int:
        try:
            return self.folder.file(self.current).stat().st_mtime_ns
        except OSError:
            return 0

    def has_changed(self) -> bool:
        """Whether the file was saved since the last time that this was asked."""
        before, self.saved = self.saved, self.time()
        return before != self.saved

    def press(self, key: str) -> Blocks:
        return self.keys[key]() if key in self.keys else iter(())

    def check(self) -> Blocks:
        self.report = self.folder.check(self.current, self.progress)
        self.saved = self.time()
        solved = progress_bar(len(self.folder.progress.solved), len(self.folder.exercises))
        yield Text(f"\nChecking {self.current.id}: {self.current.title}   {solved}", "bold")
        yield from shown(self.report)
        yield Text(str(self.folder.file(self.current)), "cyan")
        yield self.help()

    def help(self) -> RenderableType:
        passed = self.report is not None and self.report.passed
        hints = f"{self.folder.progress.hints.get(self.current.id, 0)}/{self.folder.progress.hint_levels}"
        notes = {"n": "" if passed else " (not solved yet)", "h": f" ({hints})"}
        first = Text(
            "Solved: press n. "
            if passed
            else "Open this file in your editor: the task is at its top. Save it, and it is checked.\n",
            "green" if passed else "",
        )
        return Text.assemble(
            first, Text("  ".join(f"{key}:{word}{notes.get(key, '')}" for key, word in KEYS.items()), "dim")
        )

    def go_on(self) -> Blocks:
        """To the next one that is not solved; past this one, if it is not."""
        order = self.folder.exercises
        place = order.index(self.current) + 1
        following = (each for each in order[place:] + order[:place] if each.id not in self.folder.progress.solved)
        found = next(following, None)
        if found is None:
            yield Text("All exercises are solved.", "bold green")
            return
        self.current = found
        yield from self.check()

    def go_back(self) -> Blocks:
        order = self.folder.exercises
        self.current = order[order.index(self.current) - 1]
        return self.check()

    def hint(self) -> Blocks:
        number, text = self.folder.hint(self.current)
        yield Text(f"hint {number} of {self.folder.progress.hint_levels}: {text}", "yellow")

    def solution(self) -> Blocks:
        yield Text(self.folder.solution(self.current), "green")

    def list(self) -> Blocks:
        for each in self.folder.exercises:
            solved = each.id in self.folder.progress.solved
            here = ">" if each is self.current else " "
            yield Text(
                f"{here} {'x' if solved else ' '} {each.id:<24}{each.kind:<16}{each.title}", "green" if solved else ""
            )

    def reset(self) -> Blocks:
        self.folder.reset(self.current)
        return self.check()

    def quit(self) -> Blocks:
        self.done = True
        yield Text("Solved exercises are kept: headway learn continues from here.")
