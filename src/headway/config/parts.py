"""Parts by name: how the names in a recipe become the parts of a model.

A table is a plain dict from names to classes or functions. A recipe names an entry and may set its options:
``rotary``, ``rotary(base=500)``, ``neighbourhood(before=3, after=0)``. What a part needs from the rest of the recipe
(``width``, ``heads``, ...) is passed by parameter name, so that adding a part takes a class and a line in its table.
"""

import ast
import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from headway.config.errors import BadSetting, did_you_mean

Entry = TypeVar("Entry")
OF_CODE = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError)  # of a user's own part
LONGEST_SHOWN = 80  # characters, in a message


def part(
    table: Mapping[str, Callable[..., Any]],
    text: str,
    key: str,
    defaults: Mapping[str, Any] | None = None,
    kind: type = object,
    **context: Any,
) -> Any:
    """Make the part that ``text`` names, a ``kind``; ``key`` is the setting's key, for error messages."""
    make = bind(table, text, key, defaults, **context)
    try:
        made = make()
    except BadSetting:  # the part knows which setting it is
        raise
    except (TypeError, ValueError) as error:
        raise BadSetting(key, f"{text!r} does not fit: {error}") from error
    except OF_CODE as error:
        raise BadSetting(key, f"{text!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, kind):
        shown = " ".join(repr(made).split())
        raise BadSetting(key, f"{text!r} makes {shown:.60}, not a {kind.__name__}")
    return made


def bind(
    table: Mapping[str, Callable[..., Entry]],
    text: str,
    key: str,
    defaults: Mapping[str, Any] | None = None,
    **context: Any,
) -> Callable[..., Entry]:
    """The function that ``text`` names, with its options and what it needs of the context filled in.

    Options may override the defaults, but not the context, which all parts share.
    """
    name, options = parse(text, key)
    function = choose(table, name, key)
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # of some classes that are not written in Python
        raise BadSetting(key, f"{name!r} does not say what it takes: wrap it in a function") from None
    for option in options:
        if option not in parameters:
            hint = did_you_mean(option, parameters) if parameters else "it has none"
            raise BadSetting(key, f"{name!r} has no option {option!r}; {hint}")
        if option in context:
            raise BadSetting(key, f"{name!r} gets its {option} from the rest of the recipe: leave it out")
    given = {**(defaults or {}), **context}
    return partial(function, **({name: value for name, value in given.items() if name in parameters} | options))


def is_path(text: str) -> bool:
    """Whether this is a path, and not the name of a part with or without options."""
    return re.fullmatch(r"\w+\s*(\(.*\))?", text.strip()) is None


def choose(table: Mapping[str, Entry], name: str, key: str) -> Entry:
    """The entry of this name; an unknown name is an error that suggests the closest one."""
    if name not in table:
        raise BadSetting(key, f"no such choice {name!r}; {did_you_mean(name, table)}")
    return table[name]


def parse(text: str, key: str) -> tuple[str, dict[str, Any]]:
    """``"rotary(base=500)"`` is ``("rotary", {"base": 500})``."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, {}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
            return tree.func.id, {str(option.arg): value_of(option, key) for option in tree.keywords}
    except BadSetting:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the latter two are about depth
        pass
    shown = repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")
    raise BadSetting(key, f"{shown} is neither a name nor a name with options such as 'name(option=1)'")


def value_of(option: ast.keyword, key: str) -> Any:
    try:
        value = ast.literal_eval(option.value)
    except (ValueError, TypeError):
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        text = ast.unparse(option.value)
        raise BadSetting(key, f"{option.arg}={text} is not a number, True, False, or a text in quotes") from None
    return value
