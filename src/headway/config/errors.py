"""Errors that a user can fix, each in one line; and text of others, made fit to be printed."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from signal import Signals

# Terminals obey some of these, some change the order of the letters around them, and surrogates cannot be encoded.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def visible(text: str, layout: str = "\n\t") -> str:
    """What came from a file, a model or a user, as it can be printed: an escape character becomes ``\\x1b``. Characters
    of the layout stay."""

    def form(match: re.Match[str]) -> str:
        number = ord(match[0])
        return match[0] if match[0] in layout else f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"

    return UNPRINTABLE.sub(form, text)


def is_unicode(text: str) -> bool:
    """False if it contains a lone surrogate or a byte that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Problem(ValueError):
    """The input is wrong: the message says what, where, and what to do.

    The command line prints it as one line and exits with its code; in Python it is an ordinary exception.
    """

    exit_code = 2

    def __init__(self, message: str):
        super().__init__(visible(message, layout="\t"))  # always one line, whatever it quotes


class BadSetting(Problem):
    """A setting's key or value is invalid; ``key`` is the full dotted key, ``where`` the line that sets it."""

    def __init__(self, key: str, message: str, where: str = ""):
        super().__init__(f"{where}: {key}: {message}" if where else f"{key}: {message}")
        self.key, self.message, self.where = key, message, where


@contextmanager
def key_prefix(prefix: str) -> Iterator[None]:
    """Put this in front of the key of a bad setting, so that it reads as the user wrote it."""
    try:
        yield
    except BadSetting as bad:
        if bad.where:
            raise
        raise BadSetting(prefix + bad.key, bad.message) from None


class Interrupted(KeyboardInterrupt):
    """A signal, such as Ctrl-C, stopped the training of a run. It was saved and can be resumed."""

    def __init__(self, folder: Path, step: int, signal: Signals):
        super().__init__(f"stopped at step {step:,} and saved: headway.Run({str(folder)!r}).resume() continues")
        self.folder, self.step, self.signal = folder, step, signal


class RenamedSetting(UserWarning):
    """A setting was given by its old name, which still works."""


class NoReward(Problem):
    """The reward function failed."""


MAX_LISTED = 20


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'rotary'?`` if a known word is close, else the list of them, cut if it is long."""
    names = sorted(known)
    close = get_close_matches(word, names, n=5, cutoff=0.5)
    if close:
        best = min(close, key=lambda name: (edits(word, name), sorted(word) != sorted(name)))
        return f"did you mean {best!r}?"
    return f"available: {', '.join(names[:MAX_LISTED])}{', ...' * (len(names) > MAX_LISTED)}"


def edits(word: str, name: str) -> int:
    """The fewest letters to insert, remove, replace or swap with the next one, to make one word of the other."""
    before, above, row = [0], [0], list(range(len(name) + 1))
    for i, letter in enumerate(word, start=1):
        before, above, row = above, row, [i]
        for j, other in enumerate(name, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other)))
            if i > 1 and j > 1 and word[i - 2 : i] == name[j - 1] + name[j - 2]:
                row[j] = min(row[j], before[j - 2] + 1)
    return row[-1]
