"""Files of prompts with answers: one for fine-tuning, several ranked ones for preferences, none for PPO.

    {"prompt": "...", "answer": "..."}
    {"prompt": "...", "answers": ["the best", "the second", "the worst"]}
    {"prompt": "...", "answers": ["one", "two", "three"], "ranks": [0, 1, 1]}    the lowest is the best, equal are ties
    {"prompt": "...", "chosen": "...", "rejected": "..."}

or a table with the columns prompt, answer and, if there are several answers, rank; rows with the same prompt belong
together. Prompts without answers may also be lines of a text file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from headway.config.errors import Problem, is_unicode
from headway.data.examples import LeftOut, as_text
from headway.data.files import Progress, require_file, silent
from headway.data.readers import Format, Record, checksum, records

COLUMNS = {  # usual names of columns
    "prompt": ("prompt", "question", "instruction", "query", "input", "text"),
    "answer": ("answer", "response", "completion", "output", "reply"),
}


class PromptExample(NamedTuple):
    """A prompt and its answers; the lowest rank is the best."""

    line: int
    prompt: str
    answers: list[str]
    ranks: list[float]

    @property
    def best(self) -> str:
        return self.answers[self.ranks.index(min(self.ranks))]


class BadRecord(ValueError):
    """A record that is not a prompt with answers."""


@dataclass
class PromptFile:
    path: Path
    encoding: str = "utf-8"
    skip_bad: bool = False
    progress: Progress = silent
    min_answers: int = 1  # per prompt; 0: answers are ignored
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def name(self) -> str:
        return str(self.path)

    @cached_property
    def content(self) -> str:
        """Checksum of the content; name and date do not matter."""
        return checksum([self.path], Format())

    def check(self) -> None:
        require_file(self.path)

    @cached_property
    def examples(self) -> list[PromptExample]:
        """One for each record, or for all rows of a ranked table that have the same prompt."""
        by_key: dict[Any, PromptExample] = {}
        self.left_out = LeftOut()
        for record in records(self.path, Format(self.encoding), self.shown):
            try:
                new = read(record, self.min_answers)
            except BadRecord as problem:
                self.left_out.take_bad(self.path, record.line, str(problem), self.skip_bad)
                continue
            key = new.prompt if "rank" in record.fields else record.line
            before = by_key.get(key)
            by_key[key] = new if before is None else joined(before, new)
        examples = list(self.checked(by_key.values()))
        if not examples:
            raise Problem(f"{self.path} has no prompts{' with answers' if self.min_answers else ''}")
        return examples

    def checked(self, examples: Iterable[PromptExample]) -> Iterator[PromptExample]:
        for each in examples:
            problem = problem_with(each, self.min_answers)
            if problem:
                self.left_out.take_bad(self.path, each.line, problem, self.skip_bad)
            else:
                yield each

    def shown(self, name: str, share: float) -> None:
        self.progress(f"reading {name}", share)


def joined(first: PromptExample, second: PromptExample) -> PromptExample:
    return first._replace(answers=first.answers + second.answers, ranks=first.ranks + second.ranks)


def read(record: Record, min_answers: int) -> PromptExample:
    if record.problem:
        raise BadRecord(record.problem)
    fields = record.fields
    prompt = text_in(fields, "prompt")
    if min_answers == 0:
        return PromptExample(record.line, prompt, [], [])
    if "answers" in fields:
        answers = fields["answers"]
        if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
            raise BadRecord("'answers' is not a list of strings")
        return PromptExample(
            record.line, prompt, answers, ranks_of(fields.get("ranks", list(range(len(answers)))), answers)
        )
    if "chosen" in fields:
        both = [text_in(fields, "chosen"), text_in(fields, "rejected")]
        return PromptExample(record.line, prompt, both, [0, 1])
    rank = fields.get("rank", 0)
    return PromptExample(record.line, prompt, [text_in(fields, "answer")], ranks_of([rank], [""]))


def text_in(fields: dict[str, Any], use: str) -> str:
    names = {name.lower(): name for name in fields}
    name = next((names[usual] for usual in COLUMNS.get(use, (use,)) if usual in names), None)
    if name is None:
        raise BadRecord(f"no {use!r} among {', '.join(map(repr, fields))}")
    text = as_text(fields[name])
    if isinstance(fields[name], dict | list) or not is_unicode(text):
        raise BadRecord(f"{name!r} is not a string")
    return text


def ranks_of(ranks: Any, answers: list[str]) -> list[float]:
    if not isinstance(ranks, list) or len(ranks) != len(answers):
        raise BadRecord(f"'ranks' must be {len(answers)} numbers, one per answer")
    try:
        numbers = [float(rank) for rank in ranks]
    except (TypeError, ValueError):
        raise BadRecord(f"not all ranks are numbers: {ranks}") from None
    if any(rank != rank for rank in numbers):
        raise BadRecord("a rank is missing")
    return numbers


def problem_with(example: PromptExample, min_answers: int) -> str:
    answers = example.answers
    empty = next((number for number, answer in enumerate(answers, start=1) if not answer.strip()), None)
    if empty is not None:
        return f"answer {empty} is empty"
    twice = next((answer for answer in answers if answers.count(answer) > 1), None)
    if twice is not None:
        return f"the answer {twice[:40]!r} occurs twice"
    return "" if len(answers) >= min_answers else "there is only one answer: a ranking needs at least two"
