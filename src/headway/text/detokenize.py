"""Streaming detokenization: from tokens, one at a time, to text."""

from collections.abc import Callable, Sequence

MOST_UNDECODED = 64  # tokens: a model that writes bytes at random never completes a character
REPLACEMENT = "\ufffd"  # what an incomplete UTF-8 sequence decodes to


class Detokenizer:
    """The text of one row. Text is held back while later tokens could still complete a character or a stop string."""

    def __init__(self, decode: Callable[[Sequence[int]], str], eos: int | None = None, stops: Sequence[str] = ()):
        self.decode, self.eos, self.stops = decode, eos, [stop for stop in stops if stop]
        self.last: list[int] = []  # tokens decoded last: spaces between words depend on the token before
        self.undecoded: list[int] = []
        self.given = 0  # characters of theirs that were given already
        self.held = ""  # decoded but held back
        self.done = False

    def push(self, token: int) -> str:
        """The text that this token completes."""
        if self.done:
            return ""
        if token == self.eos:
            return self.finish()
        self.undecoded.append(token)
        self.held += self.certain()
        starts = [start for stop in self.stops if (start := self.held.find(stop)) >= 0]
        if starts:
            self.held, self.undecoded = self.held[: min(starts)], []
            return self.finish()
        end = len(self.held) - max((overlap(self.held, stop) for stop in self.stops), default=0)
        out, self.held = self.held[:end], self.held[end:]
        return out

    def certain(self) -> str:
        """What the new tokens add, up to a last character that later ones may complete."""
        text = self.decoded()
        if text.endswith(REPLACEMENT) and len(self.undecoded) < MOST_UNDECODED:
            text = text[:-1]
            out, self.given = text[self.given :], len(text)
            return out
        out, self.given = text[self.given :], 0
        if text:  # tokens without text, such as special ones, are no neighbours of a word
            self.last = self.undecoded
        self.undecoded = []
        return out

    def finish(self) -> str:
        """The text that was held back."""
        out, self.held, self.undecoded, self.done = self.held + self.decoded()[self.given :], "", [], True
        return out

    def decoded(self) -> str:
        """The text that the new tokens add to the previous ones."""
        return self.decode(self.last + self.undecoded)[len(self.decode(self.last)) :]


def overlap(text: str, stop: str) -> int:
    """The length of the longest end of the text that is a proper beginning of ``stop``."""
    return next(size for size in range(min(len(text), len(stop) - 1), -1, -1) if text.endswith(stop[:size]))
