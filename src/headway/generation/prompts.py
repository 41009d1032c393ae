"""Prompting: few-shot examples, chain of thought, and extracting the answer from the generated text.

- few-shot: worked examples precede the question (Brown et al. 2020, https://arxiv.org/abs/2005.14165)
- chain of thought: the examples show their steps (Wei et al. 2022, https://arxiv.org/abs/2201.11903), or, without
  examples, a sentence asks for them (Kojima et al. 2022, https://arxiv.org/abs/2205.11916)
- self-consistency: the most frequent of several sampled answers (Wang et al. 2023, https://arxiv.org/abs/2203.11171)
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headway.config.errors import Problem
from headway.text.tokenizer import Tokenizer

FORM = "Q: {question}\nA: {answer}"
THINK = "Let's think step by step."


class PromptReader(NamedTuple):
    """What is needed to score continuations of a prompt."""

    tokenizer: Tokenizer
    window: int  # context length
    mask: int | None = None  # the mask token of a masked model; None: it predicts the next token
    sees_prompt: bool = False  # whether attention within the prompt is bidirectional


class Shot(NamedTuple):
    """A worked example."""

    question: str
    answer: str
    steps: str = ""


def prompt(question: str, shots: Sequence[Shot] = (), think: bool = False, form: str = FORM) -> str:
    """The examples, then the question, up to where its answer begins. With ``think``, the examples show their steps; if
    none has any, the prompt ends with a sentence that asks for them."""
    shown = [form.format(question=shot.question, answer=worked(shot, think)) for shot in shots]
    opening = THINK if think and not any(shot.steps for shot in shots) else ""
    return "\n\n".join([*shown, form.format(question=question, answer=opening).rstrip(" ")])


def worked(shot: Shot, think: bool) -> str:
    return f"{shot.steps} {shot.answer}".strip() if think else shot.answer


def answer_in(text: str, pattern: str) -> str | None:
    """The last match of a regular expression, or its first group if it has one; None without a match."""
    try:
        matches = list(re.finditer(pattern, text))
    except re.error as error:
        raise Problem(f"the pattern {pattern!r} is not a regular expression: {error}") from None
    if not matches:
        return None
    return matches[-1][1] if matches[-1].re.groups else matches[-1][0]


class Vote(NamedTuple):
    answer: str | None
    share: float  # of all answers


def majority(answers: Iterable[str | None]) -> Vote:
    """The most frequent answer (the first in a tie). Missing answers count towards the total."""
    answers = list(answers)
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return Vote(None, 0.0)
    answer, count = counts.most_common(1)[0]
    return Vote(answer, count / len(answers))
