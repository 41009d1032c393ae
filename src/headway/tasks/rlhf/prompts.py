"""Prompts with answers: one each, to learn to write them, or several that are ranked, to learn what is better.

    {"prompt": "...", "answer": "..."}
    {"prompt": "...", "answers": ["the best", "the second", "the worst"]}
    {"prompt": "...", "answers": ["one", "two", "three"], "ranks": [0, 1, 1]}    the lowest is the best, equals are ties
    {"prompt": "...", "chosen": "...", "rejected": "..."}

or the columns prompt, answer and, if there are several, rank; rows with the same prompt belong together. Prompts alone
may be lines of a text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from headway.config.errors import Problem
from headway.data.examples import LeftOut, as_text, is_unicode
from headway.data.files import Progress, silent
from headway.data.readers import Format, Record, checksum, records

USUAL = {  # what columns are often called, by what they are for
    "prompt": ("prompt", "question", "instruction", "query", "input", "text"),
    "answer": ("answer", "response", "completion", "output", "reply"),
}


class Answers(NamedTuple):
    """To one prompt; of ranks, the lowest is the best."""

    line: int
    prompt: str
    answers: list[str]
    ranks: list[float]

    @property
    def best(self) -> str:
        return self.answers[self.ranks.index(min(self.ranks))]


class Odd(ValueError):
    """Something that is not a prompt with answers, in words."""


@dataclass
class PromptFile:
    path: Path
    encoding: str = "utf-8"
    skip_bad: bool = False
    progress: Progress = silent
    least: int = 1  # answers that a prompt must have; 0: nobody asks for any
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def name(self) -> str:
        return str(self.path)

    @cached_property
    def content(self) -> str:
        """A checksum of what is in the file, whatever its name and age."""
        return checksum([self.path], Format())

    def check(self) -> None:
        if not self.path.is_file():
            raise Problem(f"there is no file {self.path} (seen from {Path.cwd()})")

    @cached_property
    def all(self) -> list[Answers]:
        """Each prompt once for each line, or for all rows that have it as a column."""
        found: dict[Any, Answers] = {}
        self.left_out = LeftOut()
        for record in records(self.path, Format(self.encoding), self.shown):
            try:
                new = read(record, self.least)
            except Odd as problem:
                self.left_out.take_bad(self.path, record.line, str(problem), self.skip_bad)
                continue
            key = new.prompt if "rank" in record.fields else record.line
            before = found.get(key)
            found[key] = new if before is None else joined(before, new)
        wanted = list(self.checked(found.values()))
        if not wanted:
            raise Problem(f"{self.path}: there is no prompt{' with answers' if self.least else ''} in it")
        return wanted

    def checked(self, found: Any) -> Iterator[Answers]:
        for each in found:
            problem = wrong_with(each, self.least)
            if problem:
                self.left_out.take_bad(self.path, each.line, problem, self.skip_bad)
            else:
                yield each

    def shown(self, name: str, share: float) -> None:
        self.progress(f"reading {name}", share)


def joined(first: Answers, second: Answers) -> Answers:
    return first._replace(answers=first.answers + second.answers, ranks=first.ranks + second.ranks)


def read(record: Record, least: int) -> Answers:
    if record.problem:
        raise Odd(record.problem)
    fields = record.fields
    prompt = text_in(fields, "prompt")
    if least == 0:
        return Answers(record.line, prompt, [], [])
    if "answers" in fields:
        answers = fields["answers"]
        if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
            raise Odd("'answers' is not a list of texts")
        return Answers(record.line, prompt, answers, ranks_of(fields.get("ranks", list(range(len(answers)))), answers))
    if "chosen" in fields:
        both = [text_in(fields, "chosen"), text_in(fields, "rejected")]
        return Answers(record.line, prompt, both, [0, 1])
    rank = fields.get("rank", 0)
    return Answers(record.line, prompt, [text_in(fields, "answer")], ranks_of([rank], [""]))


def text_in(fields: dict[str, Any], use: str) -> str:
    there = {name.lower(): name for name in fields}
    name = next((there[usual] for usual in USUAL.get(use, (use,)) if usual in there), None)
    if name is None:
        raise Odd(f"there is no {use!r} among {', '.join(map(repr, fields))}")
    text = as_text(fields[name])
    if isinstance(fields[name], dict | list) or not is_unicode(text):
        raise Odd(f"{name!r} is not a text")
    return text


def ranks_of(ranks: Any, answers: list[str]) -> list[float]:
    if not isinstance(ranks, list) or len(ranks) != len(answers):
        raise Odd(f"'ranks' are not {len(answers)} numbers, one for each answer")
    try:
        found = [float(rank) for rank in ranks]
    except (TypeError, ValueError):
        raise Odd(f"the ranks {ranks} are not all numbers") from None
    if any(rank != rank for rank in found):
        raise Odd("a rank is missing")
    return found


def wrong_with(each: Answers, least: int) -> str:
    empty = next((place for place, answer in enumerate(each.answers, start=1) if not answer.strip()), None)
    if empty is not None:
        return f"answer {empty} is empty"
    twice = next((answer for answer in each.answers if each.answers.count(answer) > 1), None)
    if twice is not None:
        return f"the answer {twice[:40]!r} comes twice: rank it once"
    return "" if len(each.answers) >= least else "one answer alone is no ranking: a prompt needs two at least"
