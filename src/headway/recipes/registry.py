"""Python objects as choices of a setting: a part, a metric or a reward of your own, by its name.

The name stands in the recipe and in the run; the object itself is known to this process only. Whoever opens the run
elsewhere registers it there first: a run folder never says what code to import.
"""

import re
from collections.abc import Callable, Mapping
from keyword import iskeyword
from typing import Any

from torch import nn

from headway.config import imports
from headway.config.arguments import checked
from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.config.recipe import Recipe
from headway.config.settings import rows
from headway.recipes import TABLES, names
from headway.tasks import TASKS

NAME = re.compile(r"(?:^|\s)([A-Za-z_]\w*)(?=\s|\(|$)")  # of a part, or of several metrics
REGISTERED: dict[tuple[str, str], Any] = {}  # by setting and name


def tables_of(key: str) -> list[dict[str, Any]]:
    """The tables of choices that a setting has, in any task."""
    known: list[Mapping[str, Mapping[str, Any]]] = [TABLES, *(task.tables for task in TASKS.values())]
    keys = {each for tables in known for each in tables if each != "task"}
    if key not in keys:
        raise BadSetting(key, f"it does not choose a part; {did_you_mean(key, keys)}")
    return [dict_of(tables[key]) for tables in known if key in tables]


def dict_of(table: Mapping[str, Any]) -> dict[str, Any]:
    assert isinstance(table, dict)  # a table is a plain dict at the foot of its file
    return table


@checked
def register(key: str, entry: Callable[..., Any], name: str | None = None) -> str:
    """Make a Python object a choice of a setting, and return its name there.

    ``key`` is the setting: ``model.feedforward``, ``model.norm_kind``, ``train.metrics``, ``data.reward``, and so on.
    The name is that of the object unless another is given. Registering a name again replaces the object, as when a cell
    of a notebook is run twice; built-in choices cannot be replaced.

    >>> import headway as hw
    >>> def brevity(prompts, answers):
    ...     return [-len(answer) for answer in answers]
    >>> hw.register("data.reward", brevity)
    'brevity'
    """
    if not callable(entry):
        raise Problem(f"{key}: {entry!r:.80} is not a class or a function")
    if isinstance(entry, nn.Module):
        raise Problem(f"{key}: pass the class {type(entry).__name__}, not an instance of it: each layer makes its own")
    if name is not None and (not name.isidentifier() or iskeyword(name)):
        raise Problem(f"{key}: {name!r} is not a name: use letters, digits and underscores")
    name = name or str(getattr(entry, "__name__", ""))
    if not name.isidentifier():  # a lambda, or a partial function
        name = key.rpartition(".")[2]
    if name in names():  # some settings name a recipe to train first
        name = f"my_{name}"
    for table in tables_of(key):
        if name in table and (key, name) not in REGISTERED:
            raise Problem(f"{key} has a choice {name!r} already: give yours another name, register(..., name='mine')")
        table[name] = entry
    REGISTERED[key, name] = entry
    return name


def adopt(recipe: Recipe) -> None:
    """Register what the caller trusts and the recipe names, such as a class that was passed from Python."""
    known: list[Mapping[str, Mapping[str, Any]]] = [TABLES, TASKS[recipe.task].tables]
    for row in rows(recipe):
        key = row.key.replace(".encoder_", ".")
        tables = [tables[key] for tables in known if key in tables and key != "task"]
        for name in NAME.findall(str(row.value)) if tables else ():
            if not any(name in table for table in tables) and (entry := imports.own_object(name)) is not None:
                register(key, entry, name)
