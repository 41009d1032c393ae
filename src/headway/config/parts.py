"""Parts by name: how a recipe's words become the parts of a model.

A table is a plain dict from a name to a class or a function. A recipe names an entry, and may set the options
that this entry alone has: ``rotary``, ``rotary(base=500)``, ``neighbourhood(before=3, after=0)``. What a part needs
from its surroundings (``width``, ``heads``, ...) is given by the name of the parameter, so that adding a part is
adding a class and a line in its table.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from headway.config.errors import BadSetting, did_you_mean

Entry = TypeVar("Entry")


def part(
    table: Mapping[str, Callable[..., Any]],
    text: str,
    key: str,
    defaults: Mapping[str, Any] | None = None,
    **surroundings: Any,
) -> Any:
    """Make the part that ``text`` names; ``key`` says where the text stands, for the error message."""
    make = bind(table, text, key, defaults, **surroundings)
    try:
        return make()
    except (TypeError, ValueError) as error:
        raise BadSetting(key, f"{text!r} does not fit: {error}") from error


def bind(
    table: Mapping[str, Callable[..., Entry]],
    text: str,
    key: str,
    defaults: Mapping[str, Any] | None = None,
    **surroundings: Any,
) -> Callable[..., Entry]:
    """The function that ``text`` names, with its options and what it asks for of its surroundings filled in.

    Options may replace the defaults, but not the surroundings, which other parts share.
    """
    name, options = parse(text, key)
    function = choose(table, name, key)
    wanted = inspect.signature(function).parameters
    for option in options:
        if option not in wanted:
            hint = did_you_mean(option, wanted) if wanted else "it has none"
            raise BadSetting(key, f"{name!r} has no option {option!r}; {hint}")
        if option in surroundings:
            raise BadSetting(key, f"{name!r} gets its {option} from the rest of the recipe: leave it out")
    given = {**(defaults or {}), **surroundings}
    return partial(function, **({each: value for each, value in given.items() if each in wanted} | options))


def is_path(text: str) -> bool:
    """Whether something that may be an entry of a table, with options or without, is a file instead."""
    return re.fullmatch(r"\w+\s*(\(.*\))?", text.strip()) is None


def choose(table: Mapping[str, Entry], name: str, key: str) -> Entry:
    """The entry of this name, or an error that names the nearest one."""
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
    except SyntaxError:
        pass
    raise BadSetting(key, f"{text!r} is neither a name nor a name with options such as 'name(option=1)'")


def value_of(option: ast.keyword, key: str) -> Any:
    try:
        return ast.literal_eval(option.value)
    except ValueError:
        written = ast.unparse(option.value)
        raise BadSetting(key, f"{option.arg}={written} is not a number, True, False, or a text in quotes") from None
