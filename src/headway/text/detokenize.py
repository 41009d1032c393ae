"""From tokens as they come to text as it comes."""

from collections.abc import Callable, Sequence

HALF_A_CHARACTER = "\ufffd"  # what bytes that are no whole character decode to


class Detokenizer:
    """The text of one row. Nothing is given out that the next tokens might turn into another character or a string
    to stop at."""

    def __init__(self, decode: Callable[[Sequence[int]], str], eos: int | None = None, stops: Sequence[str] = ()):
        self.decode, self.eos, self.stops = decode, eos, [stop for stop in stops if stop]
        self.last: list[int] = []  # the tokens decoded last: spaces between words depend on what is before
        self.undecoded: list[int] = []
        self.held = ""  # decoded, but not given out
        self.done = False

    def push(self, token: int) -> str:
        """The text that is certain with this token, and was not before."""
        if self.done:
            return ""
        if token == self.eos:
            return self.finish()
        self.undecoded.append(token)
        text = self.decoded()
        if text.endswith(HALF_A_CHARACTER) and len(self.undecoded) < 4:  # no character has more than four bytes
            return ""
        self.last, self.undecoded = self.undecoded, []
        self.held += text
        found = [place for stop in self.stops if (place := self.held.find(stop)) >= 0]
        if found:
            self.held = self.held[: min(found)]
            return self.finish()
        certain = len(self.held) - max((overlap(self.held, stop) for stop in self.stops), default=0)
        out, self.held = self.held[:certain], self.held[certain:]
        return out

    def finish(self) -> str:
        """What was held back."""
        out, self.held, self.undecoded, self.done = self.held + self.decoded(), "", [], True
        return out

    def decoded(self) -> str:
        """The text that the newest tokens add to the ones before them."""
        return self.decode(self.last + self.undecoded)[len(self.decode(self.last)) :]


def overlap(text: str, stop: str) -> int:
    """How many characters at the end of the text may be the beginning of the stop."""
    return next(size for size in range(min(len(text), len(stop) - 1), -1, -1) if text.endswith(stop[:size]))
