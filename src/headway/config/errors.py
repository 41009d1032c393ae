"""Errors that a user can fix, each in one line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from signal import Signals


class Problem(ValueError):
    """The input is wrong: the message says what, where, and what to do.

    The command line prints it as one line and exits with its code; in Python it is an ordinary exception.
    """

    exit_code = 2


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
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"available: {', '.join(names[:MAX_LISTED])}{', ...' * (len(names) > MAX_LISTED)}"
