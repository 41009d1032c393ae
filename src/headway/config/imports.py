"""Imports by name: the only ones in the package.

A recipe and a run are data, and may come from somebody else. A Python function that they name runs only if whoever
started this process named it as well: with ``--trust``, as a setting of their own, or with ``trust=`` in Python.
A module is trusted as a whole, for the parts of a model that it defines: it is imported
before a recipe is read, and may register them.
Trust is in the function or the module, not in the folder: it lasts until the process ends.
"""

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headway.config.errors import BadSetting, Problem

SETTINGS = ("data.reward", "data.judge")  # those that may name a function
TRUSTED: set[str] = set()
MODULES: dict[str, Any] = {}  # trusted as a whole; None: not imported yet


class Untrusted(BadSetting):
    """A recipe or a run names a Python function that nobody here has named."""

    def __init__(self, key: str, function: str):
        self.rule = f"{function} is a Python function, which runs only if you name it as well as the file"
        super().__init__(key, f"{self.rule}: pass trust={function!r}")
        self.function = function


def is_function(text: str) -> bool:
    """Whether this is ``package.module:name``."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def trust(functions: str | Iterable[str]) -> None:
    """Allow these functions, ``module:name``, and modules in this process."""
    for function in [functions] if isinstance(functions, str) else functions:
        if all(part.isidentifier() for part in function.split(".")):
            MODULES.setdefault(function, None)
        elif is_function(function):
            TRUSTED.add(function)
        else:
            raise Problem(f"cannot trust {function!r}: name a module, or a function such as my_module:my_function")


def import_trusted() -> None:
    """Those modules that are trusted as a whole."""
    for name in [name for name, module in MODULES.items() if module is None]:
        del MODULES[name]  # until it can be imported
        MODULES[name] = imported(name, "--trust")


def own_object(name: str) -> Any:
    """What a trusted module, or a trusted name in a module, is called; None: nothing."""
    for text in sorted(TRUSTED):
        if text.partition(":")[2] == name:
            return function(text, "--trust")
    return next((vars(module)[name] for module in MODULES.values() if module and name in vars(module)), None)


def trust_own(key: str, value: str) -> None:
    """What the caller's own settings name is trusted."""
    if key.strip().endswith(SETTINGS) and is_function(value.strip(' "')):
        trust(value.strip(' "'))


def function(text: str, key: str) -> Callable[..., Any]:
    """The trusted function ``package.module:name``; the current folder comes first, as for a script."""
    if text not in TRUSTED:
        raise Untrusted(key, text)
    found = imported(text, key)
    if not callable(found):
        raise BadSetting(key, f"{text} is not a function")
    return found


def imported(text: str, key: str) -> Any:
    """A module, or what ``module:name`` names."""
    module, _, name = text.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # whatever a module does while it is imported
        raise BadSetting(key, f"{text} cannot be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.pop(0)
    return found


def library(name: str, extra: str = "exchange") -> Any:
    """An optional library."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Problem(f"this needs {name}, which is not installed: pip install 'headway[{extra}]'") from None
