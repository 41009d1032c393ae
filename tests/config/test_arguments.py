"""Arguments against their annotations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np
import pandas
import pytest

from headway.config.arguments import checked, checked_methods, described, fits
from headway.config.errors import Problem

FITTING: list[tuple[Any, Any]] = [
    (3, int),
    (np.int64(3), int),
    (3, float),
    (np.float32(0.5), float),
    (np.bool_(True), bool),
    (None, int | None),
    (Path("a"), str | Path),
    (["a", "b"], Sequence[str]),
    (np.array(["a"]), Sequence[str]),
    (pandas.Series(["a"]), Iterable[str]),
    ((each for each in "ab"), Sequence[str]),
    ([], Sequence[int]),
    ({"a": [1]}, Mapping[str, Any]),
    ({"a": [1]}, Iterable[object]),
    (len, Callable[[Any], int]),
    (Path("a"), Union[str, "Path"]),
    (object(), Any),
]
MISFITTING: list[tuple[Any, Any, str]] = [
    ("3", int, "a whole number"),
    (2.0, int, "a whole number"),
    (1, bool, "True or False"),
    (b"a", str, "a text"),
    ("a", Sequence[str], "a list of texts"),
    ({"a": "b"}, Iterable[str], "a list of texts"),
    (["a", None], str | Path | Sequence[str], "a text, a path or a list of texts"),
    (3, Sequence[str] | Mapping[str, Any], "a list of texts or a dict of settings"),
    (3, Iterable[object], "a collection of rows"),
    (3, Union[str, "Path"], "a text or a Path"),
    (3, Callable[[Any], int] | None, "a function or None"),
]


@pytest.mark.parametrize(("value", "hint"), FITTING)
def test_what_fits(value: Any, hint: Any) -> None:
    assert fits(value, hint)


@pytest.mark.parametrize(("value", "hint", "words"), MISFITTING)
def test_what_does_not_fit_and_what_would(value: Any, hint: Any, words: str) -> None:
    assert not fits(value, hint)
    assert described(hint) == words


@checked_methods
class Example:
    def many(self, *files: str | Path, top: int = 1, **options: int) -> tuple[str | Path, ...]:
        return files

    def only(self, number: int) -> int:
        return number

    def _own(self, number: int) -> int:
        return number


def test_what_is_passed_is_named() -> None:
    own: Any = Example()
    assert own.many("a", Path("b"), top=2, other="c") == ("a", Path("b"))
    assert own._own("not public") == "not public"
    with pytest.raises(Problem, match=r"^many: files\[1\]=3 is not a text or a path$"):
        own.many("a", 3)
    with pytest.raises(Problem, match=r"^only: no argument 'z'; available: number$"):
        own.only(z=1)
    with pytest.raises(Problem, match=r"^many: top='x' is not a whole number$"):
        own.many(top="x")


def test_nothing_is_done_before() -> None:
    calls = []

    @checked
    def add(number: int) -> None:
        calls.append(number)

    untyped: Any = add
    with pytest.raises(Problem, match=r"add: no argument 'numbr'; did you mean 'number'\?"):
        untyped(numbr=1)
    with pytest.raises(Problem, match="add: missing a required argument: 'number'"):
        untyped()
    with pytest.raises(Problem, match=r"add: number='a b' is not a whole number"):
        untyped("a b")
    assert calls == []
