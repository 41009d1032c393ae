"""Which directions a model is trained in, and how often each is drawn. The others are zero-shot.

all               every language into every other
en                every language from and into English, and so none into another
en de-fr fr-de    the same, and German into French and back
*-en              every language into English
"""

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from headway.config.errors import BadSetting, did_you_mean
from headway.data.directions import Direction

EVERY, ANY = "all", "*"
KEY = "data.directions"


def every_direction(names: Sequence[str]) -> list[Direction]:
    return [Direction(*pair) for pair in permutations(names, 2)]


def directions_in(text: str, names: Sequence[str]) -> list[Direction]:
    """Those that a setting names, among these languages."""
    patterns = [pattern for word in text.split() for pattern in patterns_of(word, names)]
    chosen = [each for each in every_direction(names) if any(fits(each, pattern) for pattern in patterns)]
    if left_out := [name for name in names if not any(name in each for each in chosen)]:
        raise BadSetting(KEY, f"{text!r} has none from or into {left_out[0]!r}: nothing could be learned about it")
    return chosen


def patterns_of(word: str, names: Sequence[str]) -> list[Direction]:
    if word == EVERY:
        return [Direction(ANY, ANY)]
    source, dash, target = word.partition("-")
    for name in (source, target) if dash else (source,):
        if name not in names and not (dash and name == ANY):
            raise BadSetting(KEY, f"{name!r} is not among data.forms; {did_you_mean(name, names)}")
    if source == target != ANY:
        raise BadSetting(KEY, f"{word!r} is from a language into itself")
    return [Direction(source, target)] if dash else [Direction(source, ANY), Direction(ANY, source)]


def fits(direction: Direction, pattern: Direction) -> bool:
    return all(wanted in (ANY, name) for name, wanted in zip(direction, pattern, strict=True))


def weighted(directions: Sequence[Direction], shares: Mapping[str, float]) -> tuple[list[Direction], np.ndarray]:
    """The directions that are drawn at all, and how often each: in proportion to the product of the shares of its
    languages."""
    weights = {each: shares[each.source] * shares[each.target] for each in directions}
    drawn = {each: weight for each, weight in weights.items() if weight}
    if not drawn:
        raise BadSetting("data.shares", f"{KEY} has no direction between two languages with a share")
    return list(drawn), np.array(list(drawn.values())) / sum(drawn.values())
