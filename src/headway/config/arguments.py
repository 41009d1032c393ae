"""The arguments of a public function, checked against its annotations: what does not fit gets one line, before
anything is done."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ForwardRef, TypeVar, Union, get_args, get_origin

from headway.config.errors import Problem, did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

KINDS: dict[Any, tuple[type | tuple[type, ...], str]] = {  # numbers of numpy are numbers
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
    Path: (Path, "a path"),
    NoneType: (NoneType, "None"),
}
LISTS = (Sequence, Iterable)


def checked(function: Function) -> Function:
    """A function that raises a ``Problem`` if an argument is not what its annotation says, or if a file fails it."""

    @wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        signature = signature_of(function)
        try:
            arguments = signature.bind(*positional, **named).arguments
        except TypeError as error:
            unknown = [] if takes_any_name(signature) else [name for name in named if name not in signature.parameters]
            others = set(signature.parameters) - {"self", *named}
            why = f"no argument {unknown[0]!r}; {did_you_mean(unknown[0], others)}" if unknown else error
            raise Problem(f"{function.__name__}: {why}") from None
        for name, value in arguments.items():
            for misfit in misfits(signature.parameters[name], value):
                raise Problem(f"{function.__name__}: {misfit}")
        try:
            return function(*positional, **named)
        except OSError as error:  # a file that cannot be read or written
            raise Problem(str(error)) from error

    return call  # type: ignore[return-value]  # with the same signature


def checked_methods(owner: Class) -> Class:
    """A class with its constructor and its public methods checked."""
    for name, member in list(vars(owner).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, checked(member))
    return owner


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def takes_any_name(signature: inspect.Signature) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())


def misfits(parameter: inspect.Parameter, value: Any) -> Iterator[str]:
    """What is wrong with an argument, in words."""
    hint, name = parameter.annotation, parameter.name
    if parameter.kind is parameter.VAR_KEYWORD or hint is parameter.empty:
        return
    if parameter.kind is parameter.VAR_POSITIONAL:
        hint = Sequence[hint]  # type: ignore[valid-type]
    if fits(value, hint):
        return
    elements = [element_of(option) for option in options_of(hint) if get_origin(option) in LISTS]
    if isinstance(value, list | tuple) and elements:
        index = next(index for index, each in enumerate(value) if not fits(each, elements[0]))
        name, value, hint = f"{name}[{index}]", value[index], elements[0]
    shown = " ".join(repr(value).split())
    yield f"{name}={shown:.80} is not {described(hint)}"


def options_of(hint: Any) -> list[Any]:
    """The members of a union, or the hint itself."""
    return list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]


def element_of(hint: Any) -> Any:
    return (*get_args(hint), Any)[0]


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type. Any iterable passes for a sequence; only lists and tuples are looked into."""
    origin = get_origin(hint)
    if hint in (Any, object):
        return True
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin in LISTS:
        element = element_of(hint)
        if element in (Any, object):
            return isinstance(value, Iterable)
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        return not isinstance(value, list | tuple) or all(fits(each, element) for each in value)
    if isinstance(hint, ForwardRef):
        return hint.__forward_arg__ in {each.__name__ for each in type(value).__mro__}
    if hint is bool:
        return type(value).__name__ in ("bool", "bool_")
    kind = KINDS[hint][0] if hint in KINDS else origin or hint
    return not isinstance(kind, type) or isinstance(value, kind)


def described(hint: Any) -> str:
    """The type in words: "a text, a path or a list of texts"."""
    options = list(dict.fromkeys(in_words(option) for option in options_of(hint)))
    return " or ".join(filter(None, [", ".join(options[:-1]), options[-1]]))


def in_words(hint: Any) -> str:
    origin = get_origin(hint)
    if hint in KINDS:
        return KINDS[hint][1]
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


def at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise Problem(f"{name}={value} is too small: at least {least}")
