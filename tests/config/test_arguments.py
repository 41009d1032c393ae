"""Arguments against their annotations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np
import pandas
import pytest

from headway.config.arguments import Misfit, checked, checked_methods, described, fitted
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
    (True, int, "a whole number"),
    (np.array([1]), int, "a whole number"),
    (pandas.DataFrame({"a": ["b"]}), Sequence[str], "a list of texts"),
    ({"a": "b"}, Mapping[str, Sequence[str]], "a dict"),
    (np.array([1, 2]), Sequence[str], "a list of texts"),
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
    fitted(value, hint)


def test_what_fits_comes_as_pythons_own() -> None:
    """So that no function asks an array whether it is empty, or a series for its first item."""
    for given, hint, own in (
        (np.array(["a", "b"]), Sequence[str], ["a", "b"]),
        (("a",), Iterable[str], ["a"]),
        (pandas.Series([1, 2]), str | Sequence[int], [1, 2]),
        (range(2), Sequence[float], [0, 1]),
        ({"en": (each for each in "ab")}, Mapping[str, Sequence[str]], {"en": ["a", "b"]}),
        (np.int64(3), int, 3),
        (np.bool_(True), bool | None, True),
    ):
        came = fitted(given, hint)
        assert (came, type(came)) == (own, type(own))


def test_what_yields_takes_items_as_they_come() -> None:
    taken = []

    def texts() -> Iterator[str]:
        for text in "abc":
            taken.append(text)
            yield text

    @checked
    def first(texts: Iterable[str]) -> Iterator[str]:
        yield from texts

    assert next(first(texts())) == "a"
    assert taken == ["a"]


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        (float("nan"), float, "number=nan is not a finite number$"),
        (-np.inf, float | None, "number=-inf is not a finite number$"),
        (2**80, int, "number=1208925819614629174706176 is too large$"),
        ([1, None], Sequence[int], r"number\[1\]=None is not a whole number$"),
        ({"a": [1, "b"]}, Mapping[str, Sequence[int]], r"number\['a'\]\[1\]='b' is not a whole number$"),
        (pandas.DataFrame({"a": [1]}), Sequence[int], "has columns: pass one of them"),
        ((1 // each for each in (1, 0)), Sequence[int], "raised an exception after 1 items: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_is_said(value: Any, hint: Any, message: str) -> None:
    def count(number: Any) -> None:
        raise AssertionError("it is called")

    count.__annotations__["number"] = hint
    with pytest.raises(Problem, match=message):
        checked(count)(value)


def test_names_that_no_file_can_have() -> None:
    @checked
    def read(path: str | Path) -> bytes:
        return Path(path).read_bytes()

    for path, message in (("a\0b", "null character"), ("\ud800", "broken character"), ("nowhere", "No such file")):
        with pytest.raises(Problem, match=message):
            read(path)


@pytest.mark.parametrize(("value", "hint", "words"), MISFITTING)
def test_what_does_not_fit_and_what_would(value: Any, hint: Any, words: str) -> None:
    with pytest.raises(Misfit):
        fitted(value, hint)
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
