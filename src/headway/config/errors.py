"""What a user can put right, said in one line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class Problem(ValueError):
    """Something wrong with the input: the message says what, where, and what to do.

    The command line prints it as one line and exits with its code; from Python it is an ordinary exception.
    """

    exit_code = 2


class BadSetting(Problem):
    """A key of a recipe, or its value, does not fit; ``key`` is the whole dotted key."""

    def __init__(self, key: str, message: str):
        super().__init__(f"{key}: {message}")
        self.key, self.message = key, message


@contextmanager
def named_with(prefix: str) -> Iterator[None]:
    """Settings that do not fit are named as a user wrote them, with this in front."""
    try:
        yield
    except BadSetting as bad:
        raise BadSetting(prefix + bad.key, bad.message) from None


class RenamedSetting(UserWarning):
    """A setting was given by a name that it no longer has; it was understood all the same."""


class NoReward(Problem):
    """What should say how good an answer is does not."""


MOST = 20  # names that are listed


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'rotary'?`` if one of the known words is near, else the list of them, as far as it is short."""
    names = sorted(known)
    near = get_close_matches(word, names, n=1, cutoff=0.5)
    return (
        f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names[:MOST])}{', ...' * (len(names) > MOST)}"
    )
