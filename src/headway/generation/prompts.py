"""Prompts: examples in front of a question, thinking aloud, and the answer read out of what was written.

- few-shot: examples with their answers stand before the question (Brown et al. 2020, https://arxiv.org/abs/2005.14165)
- chain of thought: the examples write down their steps (Wei et al. 2022, https://arxiv.org/abs/2201.11903), or, without
  examples, a sentence asks for them (Kojima et al. 2022, https://arxiv.org/abs/2205.11916)
- self-consistency: of several answers, the most frequent (Wang et al. 2023, https://arxiv.org/abs/2203.11171)
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headway.config.errors import Problem

FORM = "Q: {question}\nA: {answer}"
THINK = "Let's think step by step."


class Shot(NamedTuple):
    """A worked example."""

    question: str
    answer: str
    steps: str = ""


def prompt(question: str, shots: Sequence[Shot] = (), think: bool = False, form: str = FORM) -> str:
    """The examples, then the question, up to where its answer begins. ``think`` asks for the steps: the examples show
    theirs; if they have none, or there are no examples, a sentence invites to think."""
    shown = [form.format(question=shot.question, answer=worked(shot, think)) for shot in shots]
    opening = THINK if think and not any(shot.steps for shot in shots) else ""
    return "\n\n".join([*shown, form.format(question=question, answer=opening).rstrip(" ")])


def worked(shot: Shot, think: bool) -> str:
    return f"{shot.steps} {shot.answer}".strip() if think else shot.answer


def answer_in(text: str, pattern: str) -> str | None:
    """What the pattern finds last: its first group, or all of it; None if it finds nothing."""
    try:
        found = list(re.finditer(pattern, text))
    except re.error as error:
        raise Problem(f"{pattern!r} is not a pattern: {error}") from None
    if not found:
        return None
    return found[-1][1] if found[-1].re.groups else found[-1][0]


class Vote(NamedTuple):
    answer: str | None
    share: float  # of all texts


def majority(answers: Iterable[str | None]) -> Vote:
    """The most frequent answer, of equals the first; texts without one count as given, for nobody."""
    answers = list(answers)
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return Vote(None, 0.0)
    answer, count = counts.most_common(1)[0]
    return Vote(answer, count / len(answers))
