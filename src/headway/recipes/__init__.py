"""Recipes: the built-in ones, by name, and anyone's own, by path; ``key=value`` words change single settings."""

import re
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import torch

from headway.config.errors import BadSetting, Problem, RenamedSetting, did_you_mean, named_with
from headway.config.parts import choose, part
from headway.config.recipe import Recipe
from headway.config.settings import old_names, put, read, rows, with_new_names
from headway.models.heads import HEADS
from headway.nn import (
    ATTENTION_FUNCTIONS,
    EMBEDDINGS,
    FEEDFORWARDS,
    INITS,
    MIXERS,
    NORMS,
    PLACEMENTS,
    POOLINGS,
    POSITIONS,
)
from headway.tasks import TASKS, Task
from headway.tasks.abilities import TrainsItself, can
from headway.text.normalize import NORMALIZERS
from headway.text.tokenizer import TOKENIZERS
from headway.training.average import AVERAGES
from headway.training.optimizers import OPTIMIZERS, freeze
from headway.training.schedules import SCHEDULES

FOLDER = Path(__file__).parent
START = "start."  # before words that are about the recipe to begin with

TABLES: dict[str, Mapping[str, Any]] = {  # what may stand after a key that names a part
    "task": TASKS,
    "model.embedding": EMBEDDINGS,
    "model.position": POSITIONS,
    "model.mixer": MIXERS,
    "model.attention": ATTENTION_FUNCTIONS,
    "model.qk_norm": NORMS,
    "model.feedforward": FEEDFORWARDS,
    "model.norm": PLACEMENTS,
    "model.norm_kind": NORMS,
    "model.head": HEADS,
    "model.init": INITS,
    "model.pooling": POOLINGS,
    "data.tokenizer": TOKENIZERS,
    "data.normalize": NORMALIZERS,
    "train.optimizer": OPTIMIZERS,
    "train.schedule": SCHEDULES,
    "train.average": AVERAGES,
}


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


# What a model must have as the run had it that it begins with.
SHAPE = (
    *("layers", "encoder_layers", "width", "heads", "kv_heads", "hidden", "embedding", "position", "mixer"),
    *("encoder_mixer", "shared", "attention", "qk_norm", "feedforward", "norm", "norm_kind"),
    *("encoder_position", "embedding_norm", "bias", "head"),
)


def load(name: str | Path, overrides: Sequence[str] = (), resolved: bool = False) -> Recipe:
    """The recipe of this name or path with ``key=value`` overrides, checked as far as that goes without its data; one
    that is ``resolved`` says itself what it took from the run that it starts from, and was checked then."""
    return read_recipe(name, overrides, resolved=True) if resolved else task(name, overrides).recipe


def task(name: str | Path, overrides: Sequence[str] = ()) -> Task:
    """The task of this recipe, with a recipe that was checked; its data have not been read."""
    made: list[Task] = []
    read_recipe(name, overrides, check=lambda recipe: made.append(check(recipe)))
    return made[0]


def read_recipe(
    name: str | Path,
    overrides: Sequence[str] = (),
    resolved: bool = False,
    check: Callable[[Recipe], None] = lambda recipe: None,
) -> Recipe:
    """What is wrong with a setting, by itself or by the ``check``, is said with its line in the file."""
    path = find(name)
    words, of_start = split_overrides(overrides)
    try:
        text = path.read_text(encoding="utf-8")
        tree = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise Problem(f"{path} is not a recipe: {error}") from None
    tree.setdefault("name", path.stem)
    names = names_before(tree, words)
    tree = with_new_names(tree, names)
    given = {put(tree, word, names) for word in words}
    if "train.steps" in given and "train.epochs" not in given:  # who counts steps does not want a recipe's epochs
        put(tree, "train.epochs=none")
    try:
        if tree.get("start") not in (None, "", "none") and not resolved:
            take_shape(tree, given, of_start)
        elif of_start:
            raise BadSetting(of_start[0], "there is no recipe to begin with")
        recipe = resolve(tree)
        check(recipe)
    except BadSetting as bad:
        line = None if bad.key in given else line_of(bad.key, text)
        if line is None:
            raise
        raise Problem(f"{path}, line {line}: {bad}") from None
    return recipe


def names_before(tree: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, str]:
    """Old names of settings, and new ones; whoever uses one on the command line is told."""
    kind = TASKS.get(str(tree.get("task")))
    names = old_names(Recipe) | ({} if kind is None else old_names(kind.settings, "data."))
    for word in overrides:
        key = word.partition("=")[0].strip()
        if key in names:
            warnings.warn(f"{key} is called {names[key]} now", RenamedSetting, stacklevel=2)
    return names


def split_overrides(overrides: Sequence[str], prefix: str = START) -> tuple[list[str], list[str]]:
    """Those of a recipe, and those of a recipe that it needs: ``start.train.steps=100`` is its train.steps."""
    own = [word for word in overrides if not word.startswith(prefix)]
    return own, [word.removeprefix(prefix) for word in overrides if word.startswith(prefix)]


def is_recipe(start: str | None) -> TypeGuard[str]:
    """Whether a recipe begins with another one, of which there is no run yet."""
    if start is None or (Path(start) / "recipe.toml").is_file():  # a run comes first, whatever its name
        return False
    return (FOLDER / f"{start}.toml").exists() or Path(start).suffix == ".toml"


def take_shape(tree: dict[str, Any], given: set[str], words: Sequence[str]) -> None:
    """Of the run or the recipe to begin with, unless a word says otherwise; and how prompts and answers are written."""
    start = str(tree["start"])
    if is_recipe(start):
        with named_with(START):
            started = load(start, words)
    else:
        path = Path(start) / "recipe.toml"
        if not path.is_file():
            raise BadSetting("start", f"{start} is not a run: it has no {path.name}; see headway runs")
        if words:
            raise BadSetting(START + words[0], f"{start} is a run: what it was trained with cannot be changed")
        started = load(path, resolved=True)
    shape = {key: getattr(started.model, key) for key in SHAPE} | {"causal": TASKS[started.task](started).is_causal}
    kind = TASKS.get(str(tree.get("task")))
    there = vars(started.data)
    for key in () if kind is None else kind.inherited:
        if key in there and f"data.{key}" not in given:
            tree.setdefault("data", {})[key] = there[key]
    tree["model"] = tree.get("model", {}) | {key: each for key, each in shape.items() if f"model.{key}" not in given}


def check(recipe: Recipe) -> Task:
    """Find out whether every part can be made, at no cost: tensors on the meta device have a shape and no numbers."""
    task = TASKS[recipe.task](recipe)
    with torch.device("meta"):
        model = task.model()
        task.check_model(model)
    if recipe.train.stop_on in task.test_only_metrics:
        raise BadSetting(
            "train.stop_on", f"{recipe.train.stop_on} is measured at the end only: take {task.validation_metrics()[-1]}"
        )
    choose(dict.fromkeys(task.metric_names), recipe.train.stop_on, "train.stop_on")
    freeze(model, recipe.train.freeze)
    spec = recipe.train
    part(SCHEDULES, spec.schedule, "train.schedule", step=1, warmup=spec.warmup, steps=spec.steps)
    part(AVERAGES, spec.average, "train.average", number=1, steps=spec.steps)
    if not can(task, TrainsItself):
        rates: dict[str, Any] = {"learning_rate": spec.learning_rate, "weight_decay": spec.weight_decay}
        part(OPTIMIZERS, spec.optimizer, "train.optimizer", model=model, **rates)
    return task


def find(name: str | Path) -> Path:
    built_in = FOLDER / f"{name}.toml"
    path = built_in if built_in.exists() else Path(name)
    if path.is_dir():
        raise Problem(f"{name} is a folder: a recipe is a TOML file")
    if not path.exists():
        raise Problem(f"no recipe {str(name)!r}: neither a file nor built in; {did_you_mean(str(name), names())}")
    return path


def resolve(tree: Mapping[str, Any]) -> Recipe:
    """Nested dicts as a recipe; its [data] section is of the kind that its task wants."""
    if not isinstance(tree.get("task"), str):
        raise BadSetting("task", f"missing: a recipe needs a task, one of {', '.join(TASKS)}")
    task = choose(TASKS, tree["task"], "task")
    keys = [row.key for row in rows(Recipe(data=task.settings()))]
    data: Any = read(task.settings, tree.get("data", {}), keys, "data.")
    return replace(read(Recipe, {name: value for name, value in tree.items() if name != "data"}, keys), data=data)


def line_of(key: str, text: str) -> int | None:
    """The line of a TOML text on which a dotted key is set."""
    section, _, name = key.rpartition(".")
    here = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\]]+)\]", line):
            here = header[1].strip()
        if re.match(rf"\s*{re.escape(name)}\s*=", line) and here == section:
            return number
    return None
