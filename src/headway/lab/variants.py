"""Variants of a recipe: ``model.norm=pre,post`` is two of them, and several such words multiply."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from headway.config.errors import Problem


@dataclass(frozen=True)
class Variant:
    """A recipe with these words put in place."""

    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """Short enough for a table and a folder: ``norm=pre feedforward=sine(scale=16)``."""
        pairs = (word.partition("=") for word in self.words)
        return " ".join(f"{key.rpartition('.')[2]}={value}" for key, _, value in pairs)


def variants(vary: Sequence[str]) -> list[Variant]:
    """All combinations of the choices in words such as ``model.norm=pre,post,rezero``."""
    axes = []
    for word in vary:
        key, equals, choices = word.partition("=")
        if not equals or not key or not choices:
            raise Problem(f"{word!r} is not of the form key=value,value, such as model.norm=pre,post")
        axes.append([f"{key}={choice}" for choice in split_choices(choices)])
    return [Variant(words) for words in product(*axes)]


def split_choices(text: str) -> list[str]:
    """Split at commas, but not inside of parentheses: ``relu,sine(scale=16)`` are two."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
