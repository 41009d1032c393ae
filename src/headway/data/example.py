"""One raw item: a text and its label."""

from typing import NamedTuple


class Example(NamedTuple):
    text: str
    label: int
