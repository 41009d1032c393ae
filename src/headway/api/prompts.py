"""Texts as arguments, and the options of what is done with them."""

from collections.abc import Sequence
from typing import TypedDict

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


class WriteOptions(GenerateOptions, total=False):
    engine: str


class TranslateOptions(TypedDict, total=False):
    num_beams: int | None
    length_penalty: float | None
    to: str | None
    engine: str
    progress: bool | Reporter | None


class BeamOptions(TypedDict, total=False):
    num_beams: int | None
    length_penalty: float | None
    to: str | None
    progress: bool | Reporter | None
    num_return_sequences: int
    num_beam_groups: int
    diversity_penalty: float
    max_new_tokens: int


def as_list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)
