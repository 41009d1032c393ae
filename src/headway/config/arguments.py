"""The arguments of a public function, checked against its annotations: what does not fit gets one line, before
anything is done. What fits comes as Python's own: a list of any iterable, a number of any library's number."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ForwardRef, TypeVar, Union, get_args, get_origin

from headway.config.errors import Problem, did_you_mean
from headway.config.recipe import ModelSpec, TrainSpec
from headway.config.settings import from_elsewhere, rows

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

LARGEST = 2**63  # what a number in an array of integers can hold
WORDS = {Any: "a value", int: "a whole number", float: "a number", str: "a text", Path: "a path", NoneType: "None"}
LISTS = (Sequence, Iterable)
SECTIONS: dict[str, Any] = {"train.": TrainSpec, "model.": ModelSpec}  # of settings that are often passed beside them


class Misfit(Exception):
    """A value that is not of a type; ``place`` is where it is in the argument, such as ``[3]``."""

    def __init__(self, value: Any, why: str, place: str = ""):
        self.value, self.why, self.place = value, why, place


def checked(function: Function) -> Function:
    """A function that raises a ``Problem`` if an argument is not what its annotation says, or if a file fails it. A
    function that yields takes an iterable as it comes, item by item."""
    lazy = inspect.isgeneratorfunction(function)

    @wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        bound = bind(function, positional, named)
        for name, value in bound.arguments.items():
            try:
                bound.arguments[name] = fitted(value, hint_of(bound.signature.parameters[name]), lazy)
            except Misfit as misfit:
                shown = " ".join(repr(misfit.value).split())
                raise Problem(f"{name_of(function)}: {name}{misfit.place}={shown:.80} {misfit.why}") from None
        try:
            return function(*bound.args, **bound.kwargs)
        except OSError as error:  # a file that cannot be read or written
            raise Problem(str(error)) from error
        except UnicodeEncodeError as error:
            text = f"{error.object!r:.80}"
            raise Problem(f"{name_of(function)}: {text} has a broken character: it is not Unicode") from error
        except ValueError as error:
            if str(error) != "embedded null byte":
                raise
            raise Problem(f"{name_of(function)}: the name of a file has a null character") from error

    return call  # type: ignore[return-value]  # with the same signature


def checked_methods(owner: Class) -> Class:
    """A class with its constructor and its public methods checked."""
    for name, member in list(vars(owner).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, checked(member))
    return owner


def name_of(function: Callable[..., Any]) -> str:
    """As a user calls it: a constructor by its class."""
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def bind(function: Callable[..., Any], positional: tuple[Any, ...], named: dict[str, Any]) -> inspect.BoundArguments:
    signature = signature_of(function)
    try:
        return signature.bind(*positional, **named)
    except TypeError as error:
        any_name = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        unknown = [] if any_name else [name for name in named if name not in signature.parameters]
        others = set(signature.parameters) - {"self", *named}
        why = f"no argument {unknown[0]!r}; {nearest_argument(unknown[0], others)}" if unknown else error
        if "available" in str(why) and "settings" in others:
            why = f"{why}; a setting of the recipe goes into settings={{...}}, such as {{'train.epochs': 3}}"
        raise Problem(f"{name_of(function)}: {why}") from None


def nearest_argument(name: str, others: set[str]) -> str:
    """A setting that goes into a section: ``lr=0.1`` is ``train={"learning_rate": 0.1}``."""
    keys = [row.key for path, spec in SECTIONS.items() for row in rows(spec(), path)]
    key = from_elsewhere(name) or next((each for each in keys if each.rpartition(".")[2] == name), "")
    section, _, setting = key.rpartition(".")
    if "settings" not in others or not section:
        return did_you_mean(name, others)
    as_argument = section in others and section != "data"  # which is the data themselves
    return (
        f"did you mean {section}={{{setting!r}: ...}}?" if as_argument else f"did you mean settings={{{key!r}: ...}}?"
    )


def hint_of(parameter: inspect.Parameter) -> Any:
    if parameter.kind is parameter.VAR_KEYWORD or parameter.annotation is parameter.empty:
        return Any
    hint = parameter.annotation
    return Sequence[hint] if parameter.kind is parameter.VAR_POSITIONAL else hint  # type: ignore[valid-type]


def fitted(value: Any, hint: Any, lazy: bool = False) -> Any:
    """The value as the type says, or a ``Misfit``."""
    options, inner = options_of(hint), None
    if Path in options and isinstance(value, str):
        return value  # the name of a file may be no Unicode
    for option in options:
        try:
            return fitted_to(value, option, lazy)
        except Misfit as misfit:
            inner = inner or (misfit if misfit.place else None)
    raise inner or Misfit(value, why_not(value, hint))


def fitted_to(value: Any, hint: Any, lazy: bool) -> Any:
    """``hint`` is no union here."""
    origin = get_origin(hint)
    if hint in (Any, object):
        return value
    if is_list(hint):
        return fitted_list(value, hint, lazy)
    if origin is Mapping and isinstance(value, Mapping) and get_args(hint)[1] is not Any:
        return dict(fitted_items(value, get_args(hint)[1]))
    if hint in (int, float):
        return fitted_number(value, hint)
    if hint is bool and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if isinstance(hint, ForwardRef):
        fits = hint.__forward_arg__ in {each.__name__ for each in type(value).__mro__}
    else:
        kind = origin or hint
        fits = not isinstance(kind, type) or isinstance(value, kind)
    if not fits:
        raise Misfit(value, "")
    return value


def fitted_number(value: Any, hint: type) -> Any:
    if not isinstance(value, Integral if hint is int else Real) or isinstance(value, bool) or not is_moderate(value):
        raise Misfit(value, "")
    return value if isinstance(value, int | float) else hint(value)


def is_moderate(number: Any) -> bool:
    """Neither NaN nor infinite, nor a whole number that no array can hold."""
    return abs(int(number)) < LARGEST if isinstance(number, Integral) else math.isfinite(number)


def fitted_list(value: Any, hint: Any, lazy: bool) -> Any:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or has_columns(value):
        raise Misfit(value, "")
    return value if lazy else [each for _, each in fitted_items(enumerate(items(value)), element_of(hint))]


def fitted_items(values: Mapping[Any, Any] | Iterable[tuple[Any, Any]], hint: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in values.items() if isinstance(values, Mapping) else values:
        try:
            yield key, fitted(value, hint)
        except Misfit as misfit:
            raise Misfit(misfit.value, misfit.why, f"[{key!r}]{misfit.place}") from None


def items(values: Iterable[Any], name: str = "the values", kind: str = "items") -> Iterator[Any]:
    """The items; an exception of the iterable itself says so."""
    number = 0
    try:
        for value in values:
            yield value
            number += 1
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Problem(f"{name} raised an exception after {number} {kind}: {reason}") from error


def options_of(hint: Any) -> list[Any]:
    """The members of a union, or the hint itself."""
    return list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]


def is_list(hint: Any) -> bool:
    """Of items of some type: a collection of ``object`` is taken as it is."""
    return get_origin(hint) in LISTS and element_of(hint) is not object


def has_columns(value: Any) -> bool:
    return hasattr(type(value), "columns")


def element_of(hint: Any) -> Any:
    return (*get_args(hint), Any)[0]


def why_not(value: Any, hint: Any) -> str:
    options = options_of(hint)
    if has_columns(value) and any(map(is_list, options)):
        return "has columns: pass one of them, such as frame['text']"
    if isinstance(value, Real) and {int, float} & set(options) and not is_moderate(value):
        return "is too large" if isinstance(value, Integral) else "is not a finite number"
    return f"is not {described(hint)}"


def described(hint: Any) -> str:
    """The type in words: "a text, a path or a list of texts"."""
    options = list(dict.fromkeys(in_words(option) for option in options_of(hint)))
    return " or ".join(filter(None, [", ".join(options[:-1]), options[-1]]))


def in_words(hint: Any) -> str:
    origin = get_origin(hint)
    if hint in WORDS:
        return WORDS[hint]
    if hint is bool:
        return "True or False"
    if origin in LISTS and element_of(hint) is object:
        return "a collection of rows"
    if origin in LISTS:
        kinds = [name.partition(" ")[2] for option in options_of(element_of(hint)) if (name := in_words(option))]
        return f"a list of {' or '.join(f'{kind}s' for kind in kinds)}" if all(kinds) else "a list"
    if origin is Mapping:
        return "a dict of settings" if get_args(hint) == (str, Any) else "a dict"
    if origin is Callable:
        return "a function"
    name = hint.__forward_arg__ if isinstance(hint, ForwardRef) else getattr(origin or hint, "__name__", str(hint))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def at_least(least: int, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < least:
            raise Problem(f"{name}={value} is too small: at least {least}")
