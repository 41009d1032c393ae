"""Texts as arguments, and the options of what is done with them."""

from collections.abc import Sequence
from typing import TypedDict

from headway.config.errors import Problem
from headway.runs.pipeline import Reporter


class GenerateOptions(TypedDict, total=False):
    max_new_tokens: int
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float
    stop: str | Sequence[str]
    seed: int
    int8: bool


class TranslateOptions(TypedDict, total=False):
    num_beams: int | None
    length_penalty: float | None
    to: str | None
    progress: bool | Reporter | None


class BeamOptions(TranslateOptions, total=False):
    num_return_sequences: int
    num_beam_groups: int
    diversity_penalty: float
    max_new_tokens: int


def prompts_of(prompts: str | Sequence[str]) -> list[str]:
    if isinstance(prompts, str):
        return [prompts]
    return [checked_text(prompt, f"text {number}") for number, prompt in enumerate(prompts, start=1)]


def checked_text(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise Problem(f"{name} is {text!r:.60}: pass a string")
    return text
