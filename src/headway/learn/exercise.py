"""What an exercise is, and what a check reports.

Kinds of exercises: fill in code (``FillIn``), work by hand (``ByHand``), answer in words (``Short``), find planted bugs
(``BugHunt``), train (``Train``). Each knows the file that a learner gets, checks it, and has a solution and three
hints: a question, a direction, and the line itself.
"""

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from headway.data.files import Progress, silent
from headway.learn.source import Edit, Region, region

Args = tuple[Any, ...]
Cases = Callable[[], Mapping[str, Args]]  # named; drawn with torch's own random numbers, which are seeded before
Property = Callable[[Callable[..., Any], Args], bool]  # of a function, seen at the arguments of the first case
TRACKS = {  # in the order in which they are learned
    "start": "First steps",
    "mask": "Masks and shapes",
    "attn": "Attention",
    "pos": "Positions",
    "block": "Blocks",
    "model": "Models",
    "tokens": "Tokens",
    "train": "Training",
    "rnn": "Recurrent networks",
    "lm": "Language models and translation",
    "decode": "Decoding",
    "embed": "Word embeddings",
    "pretrain": "Pre-training",
    "rlhf": "Learning from preferences",
    "multi": "Many languages",
    "parallel": "Parallel training",
    "bugs": "Find the errors",
    "goal": "Train to a mark",
    "look": "Look inside",
}


NOT_YET = "nothing has been written yet"


@dataclass(frozen=True)
class Finding:
    """A line of a report."""

    name: str
    ok: bool
    detail: str = ""
    value: str = ""  # what was measured, where it is of interest though it is right


@dataclass(frozen=True)
class Grid:
    """What came out beside what should have: the matrix with the largest difference, which is at a row and a column."""

    yours: list[list[float]]
    target: list[list[float]]
    where: str = ""
    at: tuple[int, int] = (0, 0)

    @property
    def difference(self) -> list[list[float]]:
        pairs = zip(self.yours, self.target, strict=True)
        return [[one - other for one, other in zip(own, right, strict=True)] for own, right in pairs]

    @property
    def differs(self) -> bool:
        return any(abs(value) > 1e-9 or value != value for row in self.difference for value in row)


@dataclass(frozen=True)
class Report:
    exercise: str
    findings: list[Finding]
    advice: str = ""  # which mistake it is, if it is one of the catalogue
    grid: Grid | None = None
    printed: str = ""  # by the code of the learner
    score: float | None = None  # from 0 to 1, where there is more than passed and failed
    curves: Mapping[str, Sequence[tuple[float, ...]]] = field(default_factory=dict)  # of trainings: steps and losses

    @property
    def passed(self) -> bool:
        return bool(self.findings) and all(finding.ok for finding in self.findings)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise(ABC):
    id: str
    title: str
    task: str
    hints: tuple[str, ...]  # a question, a direction, and the line; without it, the last line of the solution
    is_given: bool = False  # it is solved from the beginning
    kind = ""
    ending = ".toml"

    @property
    def track(self) -> str:
        return self.id.partition(".")[0]

    @property
    def file(self) -> Path:
        """Its place in a learner's folder."""
        number = list(TRACKS).index(self.track)
        return Path(f"{number:02}_{self.track}", self.id.partition(".")[2].replace(".", "_") + self.ending)

    @abstractmethod
    def skeleton(self, seed: int) -> str:
        """The file that the learner gets."""

    @abstractmethod
    def solved(self, seed: int) -> str:
        """The same file with the solution."""

    @abstractmethod
    def check(self, path: Path, seed: int, progress: Progress = silent) -> Report: ...

    def grade(self, path: Path, seed: int) -> Report:
        """The same for a file from someone else."""
        return self.check(path, seed)

    def explained(self, seed: int) -> str:
        """The worked solution, to be read."""
        return self.solved(seed)

    def hint(self, number: int, seed: int) -> str:
        """From 1 on."""
        return self.hints[number - 1] if number <= len(self.hints) else self.explained(seed).splitlines()[-1].strip()


@dataclass(frozen=True)
class Mistake:
    """A wrong version, as an edit of the right one, and the sentence that the learner reads."""

    sentence: str
    edits: tuple[Edit, ...]

    @classmethod
    def of(cls, sentence: str, *edits: Edit) -> "Mistake":
        return cls(sentence, edits)


@dataclass(frozen=True, kw_only=True, eq=False)
class FillIn(Exercise):
    module: str  # where the marker is
    marker: str = ""  # its name, if it is not the exercise's own
    cases: Cases
    mistakes: Sequence[Mistake] = ()
    properties: Mapping[str, Property] = field(default_factory=dict)
    called_with: Callable[[], Args] | None = None  # what is returned is a function, which is called with these
    plain: str = ""  # the same function written out, of which the mistakes are edits; otherwise of the library's own
    kind = "fill in"
    ending = ".py"

    @cached_property
    def region(self) -> Region:
        return region(self.marker or self.id, self.module)

    def skeleton(self, seed: int = 0) -> str:
        lines = self.region.with_solution() if self.is_given else self.region.without_solution()
        return f'"""{self.header}"""\n\n{self.region.cut(lines)}'

    def solved(self, seed: int = 0) -> str:
        return f'"""{self.header}"""\n\n{self.region.cut(self.region.with_solution())}'

    def explained(self, seed: int = 0) -> str:
        return textwrap.dedent("\n".join(self.region.solution)).strip()

    @property
    def header(self) -> str:
        return f"{self.id}: {self.title}\n\n{wrapped(self.task)}\n"

    def plainly(self, edits: Sequence[Edit] = ()) -> Any:
        return self.region.function(edits, textwrap.dedent(self.plain).strip())

    def wrong(self, mistake: Mistake) -> Any:
        return self.plainly(mistake.edits)

    def check(self, path: Path, seed: int, progress: Progress = silent) -> Report:
        from headway.learn.submission import check_file

        return check_file(self, path, seed)


def wrapped(text: str, width: int = 100) -> str:
    paragraphs = textwrap.dedent(text).strip().split("\n\n")
    return "\n\n".join(
        part if part.startswith("    ") else textwrap.fill(" ".join(part.split()), width) for part in paragraphs
    )
