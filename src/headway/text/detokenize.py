"""Streaming detokenization: from tokens, one at a time, to text."""

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"  # what an incomplete UTF-8 sequence decodes to


class Detokenizer:
    """The text of one row. Text is held back while later tokens could still complete a character or a stop string."""

    def __init__(self, decode: Callable[[Sequence[int]], str], eos: int | None = None, stops: Sequence[str] = ()):
        self.decode, self.eos, self.stops = decode, eos, [stop for stop in stops if stop]
        self.last: list[int] = []  # tokens decoded last: spaces between words depend on the token before
        self.undecoded: list[int] = []
        self.held = ""  # decoded but held back
        self.done = False

    def push(self, token: int) -> str:
        """The text that this token completes."""
        if self.done:
            return ""
        if token == self.eos:
            return self.finish()
        before = self.decoded() if self.undecoded else ""
        self.undecoded.append(token)
        text = self.decoded()
        if not text.endswith(REPLACEMENT):
            self.held += text
            if text:  # after a token without text, such as <unk>, a word still needs the space before it
                self.last, self.undecoded = self.undecoded, []
        elif before and text.startswith(before) and len(text) > len(before):  # what was incomplete stays so
            self.held += before
            self.last, self.undecoded = self.undecoded[:-1], [token]
        starts = [start for stop in self.stops if (start := self.held.find(stop)) >= 0]
        if starts:
            self.held, self.undecoded = self.held[: min(starts)], []
            return self.finish()
        certain = len(self.held) - max((overlap(self.held, stop) for stop in self.stops), default=0)
        out, self.held = self.held[:certain], self.held[certain:]
        return out

    def finish(self) -> str:
        """The text that was held back."""
        out, self.held, self.undecoded, self.done = self.held + self.decoded(), "", [], True
        return out

    def decoded(self) -> str:
        """The text that the new tokens add to the previous ones."""
        return self.decode(self.last + self.undecoded)[len(self.decode(self.last)) :]


def overlap(text: str, stop: str) -> int:
    """The length of the longest end of the text that is a proper beginning of ``stop``."""
    return next(size for size in range(min(len(text), len(stop) - 1), -1, -1) if text.endswith(stop[:size]))
