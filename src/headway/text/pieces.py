"""Long texts in pieces: a tokenizer that got hundreds of megabytes at once would run out of memory."""

import re
from collections.abc import Callable, Iterable, Iterator

SINGLE_SPACE = re.compile(r"(?<=\S)\s(?=\S)")
LONGEST = 1 << 20  # characters that a tokenizer or a normalizer gets at once


def last_space(text: str, first: int) -> int | None:
    """The position of the last single space from ``first`` on; tries the end of the text first, where it usually is."""
    for reach in (256, len(text)):
        cuts = [match.start() for match in SINGLE_SPACE.finditer(text, max(first, len(text) - reach))]
        if cuts:
            return cuts[-1]
    return None


def bounded(text: str, longest: int = LONGEST) -> Iterator[str]:
    """The pieces of a text, cut before single spaces, where a cut does not change the tokens; without any, anywhere."""
    begin = 0
    while len(text) - begin > longest:
        window = text[begin : begin + longest]
        cut = last_space(window, longest // 2) or longest
        yield window[:cut]
        begin += cut
    yield text[begin:] if begin else text


class InPieces(Iterable[str]):
    """Texts in pieces, read anew as often as they are wanted."""

    def __init__(self, texts: Iterable[str]):
        self.texts = texts

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            yield from bounded(text)


def in_pieces(texts: Iterable[str]) -> Iterable[str]:
    """An iterator stays one: it can be read once."""
    return iter(InPieces(texts)) if isinstance(texts, Iterator) else InPieces(texts)


def piecewise(change: Callable[[str], str], text: str) -> str:
    return "".join(map(change, bounded(text)))
