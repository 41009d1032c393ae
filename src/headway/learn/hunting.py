"""Bug hunts: a paper is code with planted bugs; the learner mends them and marks their lines with ``# BUG: why``.

Whether a bug is mended is found out by computing: each function of the learner's is put into the right code alone, and
what comes out is compared with what comes out of the right function, and of that with each bug that was planted in it.
So other bugs, and bugs that crash, do not disturb.
"""

import ast
import random
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from headway.config.errors import Problem, did_you_mean
from headway.config.json_files import read_text
from headway.data.files import Progress, silent
from headway.learn import sandbox
from headway.learn.bugs import DEFAULT_BUGS, PAPERS, Bug, Paper
from headway.learn.exercise import Exercise, Finding, Report
from headway.learn.performing import Leaves, Outcome, Performance, flattened, matches, text_of
from headway.learn.source import executed, source_lines

MARK = "# BUG"
MOST_BYTES = 1 << 18


@dataclass(frozen=True)
class Hunt:
    name: str
    bugs: int
    seed: int

    def __post_init__(self) -> None:
        if self.name not in PAPERS:
            raise Problem(f"there is no hunt {self.name!r}; {did_you_mean(self.name, PAPERS)}")
        most = len({bug.function for bug in self.paper.bugs})
        if not 1 <= self.bugs <= most:
            raise Problem(f"--bugs {self.bugs}: {self.name} has room for 1 to {most}")

    @property
    def paper(self) -> Paper:
        return PAPERS[self.name]

    @property
    def file(self) -> Path:
        return Path(f"{self.name}-{self.bugs}-{self.seed}.py")

    def planted(self) -> list[Bug]:
        """No two in one function; the loud ones are at most a quarter, so that papers are equally hard."""
        shuffled = random.Random(f"{self.name} {self.seed}")
        bugs, chosen = shuffled.sample(self.paper.bugs, len(self.paper.bugs)), list[Bug]()
        for loud in (False, True):
            for bug in bugs:
                room = self.bugs if loud else self.bugs - self.bugs // 4
                if len(chosen) < room and (bug.level == "loud") == loud and bug.function not in functions(chosen):
                    chosen.append(bug)
        rest = [bug for bug in bugs if bug.function not in functions(chosen)]
        for bug in rest:  # where there are not enough loud ones
            if len(chosen) < self.bugs and bug.function not in functions(chosen):
                chosen.append(bug)
        return chosen

    def text(self) -> str:
        about = (
            f"{self.bugs} bugs are planted in this file ({self.name}, seed {self.seed}). Mend them, and mark the line "
        )
        about += f"of each with a comment at its end: {MARK}: why. Lines that are right should stay as they are."
        return "".join(f"# {line}\n" for line in textwrap.wrap(about, 100)) + "\n" + self.planted_text()

    def planted_text(self) -> str:
        return planted(self.paper, self.planted())

    def corrections(self) -> Iterator[tuple[int, str, str]]:
        """For each bug, the number of its line in the planted text, the lines that should stand there, and why."""
        head = self.text().count("\n") - self.planted_text().count("\n")
        right, bad = parts_of(right_text(self.paper)), parts_of(self.planted_text())
        for bug in self.planted():
            own, other = (parts[bug.function].splitlines() for parts in (right, bad))
            blocks = SequenceMatcher(None, other, own, autojunk=False).get_opcodes()
            changed = [line.strip() for kind, _, _, c, d in blocks if kind != "equal" for line in own[c:d]]
            if "\n" in bug.old.strip() and bug.new:  # lines that were moved: all of them
                changed = [line.strip() for line in bug.old.strip().splitlines()]
            text = "\n".join(changed) or "this line should not be there"
            yield bug_lines(self)[bug] - head, text, bug.why

    def solution(self) -> str:
        """The right code, with a mark at every bug."""
        right, lines = parts_of(right_text(self.paper)), self.text().splitlines()
        for bug in self.planted():
            number = bug_lines(self)[bug] - 1
            lines[number] += f"  {MARK}: {bug.why}"
        text = "\n".join(lines) + "\n"
        for bug in self.planted():
            part = parts_of(text)[bug.function]
            good = right[bug.function].splitlines()
            offset = bug_lines(self)[bug] - 1 - text[: text.index(part)].count("\n")
            good[offset] += f"  {MARK}: {bug.why}"
            text = text.replace(part, "\n".join(good) + "\n", 1)
        return text

    def check(self, path: Path) -> Report:
        try:
            text = read_text(path, MOST_BYTES)
            tree = parts_of(text)
        except (OSError, ValueError, SyntaxError) as error:
            return Report(f"hunt {self.name}", [Finding("can be read", False, f"{path.name}: {error}")])
        located, alarms = marks(self, text)
        findings, fixed = [], 0
        for number, bug in enumerate(self.planted(), start=1):
            is_fixed, reason = mended(self.paper, bug, tree.get(bug.function, ""))
            fixed += is_fixed
            where = "located" if bug in located else "not located"
            findings.append(
                Finding(f"bug {number}", is_fixed and bug in located, f"{'mended' if is_fixed else reason}, {where}")
            )
        broken = [name for name in changed(self, tree) if not works(self.paper, name, tree[name])[0]]
        findings.append(Finding("false alarms", not alarms and not broken, f"{alarms} marked, {len(broken)} broken"))
        points = (fixed + len(located)) / 2 - (alarms + len(broken)) / 2
        return Report(f"hunt {self.name}", findings, score=max(points, 0.0) / self.bugs)


def functions(bugs: Sequence[Bug]) -> set[str]:
    return {bug.function for bug in bugs}


def right_text(paper: Paper) -> str:
    return "\n".join(source_lines(paper.module)) + "\n"


def parts_of(text: str) -> dict[str, str]:
    """The source of every function, by its name: ``Layer.forward``."""
    lines = text.splitlines()
    return {name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n" for name, node in nodes(ast.parse(text))}


def nodes(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{each.name}", each) for each in node.body if isinstance(each, ast.FunctionDef))


def with_bug(part: str, bug: Bug) -> str:
    if part.count(bug.old) != 1:
        raise Problem(f"{bug.function}: {bug.old!r} stands {part.count(bug.old)} times, not once")
    return part.replace(bug.old, bug.new)


def planted(paper: Paper, bugs: Sequence[Bug]) -> str:
    text = right_text(paper)
    for bug in bugs:
        part = parts_of(text)[bug.function]
        text = text.replace(part, with_bug(part, bug), 1)
    return text


@lru_cache(maxsize=64)
def bug_lines(hunt: Hunt) -> dict[Bug, int]:
    """The first line, from 1 on, that each bug has changed in the paper."""
    found = {}
    bad = parts_of(hunt.text())
    whole = hunt.text()
    for bug in hunt.planted():
        first = whole[: whole.index(bad[bug.function])].count("\n")
        right = parts_of(right_text(hunt.paper))[bug.function].splitlines()
        pairs = enumerate(zip(right, bad[bug.function].splitlines(), strict=False), start=1)
        found[bug] = first + next((number for number, (one, other) in pairs if one != other), len(right))
    return found


def marks(hunt: Hunt, text: str) -> tuple[set[Bug], int]:
    """The bugs whose lines are marked, and how many marks are at other lines."""
    given, own = ([line.split(MARK)[0].strip() for line in each.splitlines()] for each in (hunt.text(), text))
    origins: dict[int, range] = {}
    for kind, a, b, c, d in SequenceMatcher(None, given, own, autojunk=False).get_opcodes():
        for place in range(c, d):
            origins[place] = range(a + place - c, a + place - c + 1) if kind == "equal" else range(a, max(b, a + 1))
    lines = {number - 1: bug for bug, number in bug_lines(hunt).items()}
    located, alarms = set[Bug](), 0
    for place, line in enumerate(text.splitlines()):
        if MARK in line and not line.strip().startswith("# "):
            here = [lines[origin] for origin in nearby(origins.get(place, range(0))) if origin in lines]
            located |= set(here[:1])
            alarms += not here
    return located, alarms


def nearby(origin: range) -> Iterator[int]:
    """The line itself first; a bug may also be a line that is missing before or after it."""
    yield from origin
    yield from (origin.start - 1, origin.stop)


def results(paper: Paper, part: str, name: str) -> Leaves:
    """What the right code computes with this function in it; an error is a result, too."""
    text = right_text(paper)
    whole = text.replace(parts_of(text)[name], indented(part, "." in name), 1)
    names: dict[str, Any] = {"__name__": "paper"}
    try:
        executed(whole, "paper.py", names)
        return [each.detach() if isinstance(each, torch.Tensor) else each for each in flattened(paper.trial(names))]
    except Exception as error:
        return [f"error: {text_of(error)}"]


def indented(part: str, is_method: bool) -> str:
    return textwrap.indent(textwrap.dedent(part), "    " * is_method)


@lru_cache(maxsize=512)
def expected(paper: Paper, name: str, bugs: tuple[Bug, ...]) -> Leaves:
    part = parts_of(right_text(paper))[name]
    for bug in bugs:
        part = with_bug(part, bug)
    return results(paper, part, name)


def works(paper: Paper, name: str, part: str) -> tuple[bool, str]:
    """Whether a function of the learner's is right; it runs apart from this process."""
    ran = sandbox.run(lambda: Performance([Outcome("paper", results(paper, part, name))]).to_bytes())
    if ran.result is None or not ran.result:
        return False, ran.reason
    try:
        outcome = Performance.from_bytes(ran.result).outcomes[0]
    except (ValueError, IndexError):
        return False, "no result"
    if matches(outcome.leaves, expected(paper, name, ())):
        return True, ""
    return False, str(outcome.leaves[0]) if len(outcome.leaves) == 1 else "not mended"


def mended(paper: Paper, bug: Bug, part: str) -> tuple[bool, str]:
    if not part:
        return False, f"{bug.function} is gone"
    return works(paper, bug.function, part)


def changed(hunt: Hunt, tree: dict[str, str]) -> Iterator[str]:
    """Functions without a bug that were changed all the same."""
    right, bad = parts_of(right_text(hunt.paper)), functions(hunt.planted())
    yield from (name for name, part in right.items() if name not in bad and name in tree and tree[name] != part)


def default_bugs(name: str) -> int:
    return DEFAULT_BUGS.get(name, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class BugHunt(Exercise):
    hunt: str
    kind = "find the bugs"
    ending = ".py"

    def paper(self, seed: int) -> Hunt:
        return Hunt(self.hunt, default_bugs(self.hunt), seed)

    def skeleton(self, seed: int) -> str:
        return self.paper(seed).text()

    def solved(self, seed: int) -> str:
        return self.paper(seed).solution()

    def explained(self, seed: int) -> str:
        bugs = sorted(self.paper(seed).planted(), key=lambda bug: bug.function)
        return "\n".join(f"{bug.function}: {bug.why}" for bug in bugs)

    def check(self, path: Path, seed: int, progress: Progress = silent) -> Report:
        return replace(self.paper(seed).check(path), exercise=self.id)


def paper_problems(name: str) -> Iterator[str]:
    """What is wrong with the bugs of a paper: for selfcheck."""
    paper = PAPERS[name]
    for bug in paper.bugs:
        if matches(expected(paper, bug.function, (bug,)), expected(paper, bug.function, ())):
            yield f"nothing notices: {bug.function}: {bug.why}"
        is_loud = str(expected(paper, bug.function, (bug,))[0]).startswith("error: ")
        if is_loud != (bug.level == "loud"):
            yield f"{'loud' if is_loud else 'not loud'}: {bug.function}: {bug.why}"
    for one, other in combinations(paper.bugs, 2):
        if (one.function, one.old, one.new) == (other.function, other.old, other.new):
            yield f"twice: {one.why}"
