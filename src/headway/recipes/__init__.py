"""Recipes: built-in ones by name, your own by path; ``key=value`` overrides change single settings."""

import os
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import torch

from headway.config import imports
from headway.config.errors import BadSetting, Problem, RenamedSetting, did_you_mean, key_prefix
from headway.config.json_files import read_text
from headway.config.parallel import refuse_impossible
from headway.config.parts import choose, part
from headway.config.recipe import Recipe
from headway.config.settings import old_names, put, read, rows, with_new_names
from headway.data.files import format_of
from headway.data.readers import TAGGED
from headway.metrics import NEITHER_IS_BETTER
from headway.metrics.classification import METRICS
from headway.models.heads import HEADS, with_bias
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
from headway.nn.characters import CHARACTERS
from headway.nn.crf import TAG_HEADS
from headway.recipes.conditions import apply_conditions, has_start
from headway.recipes.size import small_model
from headway.tasks import TASKS, Task
from headway.tasks.abilities import TrainsItself, can
from headway.text.tokenizer import NORMALIZERS, TOKENIZERS
from headway.training.average import AVERAGES
from headway.training.optimizers import OPTIMIZERS, freeze
from headway.training.schedules import SCHEDULES
from headway.training.shares import refuse_untried

FOLDER = Path(__file__).parent
KNOWN_AS = ("ner", "pos", "tagging", "tagger", "chunk", "chunking", "token-classification")  # what is tag here
START = "start."  # prefix of overrides for the recipe to start from

TABLES: dict[str, Mapping[str, Any]] = {  # the choices of each setting that names a part
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
    "model.tag_head": TAG_HEADS,
    "model.characters": CHARACTERS,
    "model.init": INITS,
    "model.pooling": POOLINGS,
    "data.tokenizer": TOKENIZERS,
    "data.normalize": NORMALIZERS,
    "train.optimizer": OPTIMIZERS,
    "train.schedule": SCHEDULES,
    "train.average": AVERAGES,
    "train.metrics": METRICS,
}


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


# Settings of the model that are taken over from the run that it starts from.
SHAPE = (
    *("layers", "encoder_layers", "width", "heads", "kv_heads", "hidden", "embedding", "position", "mixer"),
    *("encoder_mixer", "shared", "attention", "qk_norm", "feedforward", "norm", "norm_kind"),
    *("encoder_position", "embedding_norm", "bias", "head", "characters"),
)


def load(name: str | Path, overrides: Sequence[str] = (), resolved: bool = False) -> Recipe:
    """The recipe of this name or path with ``key=value`` overrides, checked as far as possible without its data.

    A ``resolved`` one, from a run folder, already has the shape of the run that it started from, and was checked.
    """
    return read_recipe(name, overrides, resolved=True) if resolved else task(name, overrides).recipe


def task(name: str | Path, overrides: Sequence[str] = ()) -> Task:
    """The task of a recipe that was checked; its data are not read yet."""
    made: list[Task] = []
    read_recipe(name, overrides, check=lambda recipe: made.append(check(recipe)))
    return made[0]


def read_recipe(
    name: str | Path,
    overrides: Sequence[str] = (),
    resolved: bool = False,
    check: Callable[[Recipe], None] = lambda recipe: None,
) -> Recipe:
    """Read a recipe and ``check`` it; an error about a setting in the file names its line."""
    imports.import_trusted()
    path = find(name)
    own, of_start = split_overrides(overrides)
    text, tree = text_and_tree(path)
    tree.setdefault("name", path.stem)
    names = renamed_keys(tree, own)
    tree = with_new_names(tree, names)
    given = {put(tree, override, names) for override in own}
    if {"train.steps", "train.epochs"} <= given and tree["train"]["epochs"] != "none":
        raise BadSetting("train.steps", "train.epochs is set as well: set one of them")
    if "train.steps" in given:  # they replace the recipe's epochs
        put(tree, "train.epochs=none")
    try:
        apply_conditions(tree, given)
        if has_start(tree) and not resolved:
            take_shape(tree, given, of_start)
        elif of_start:
            raise BadSetting(of_start[0], "there is no recipe to start from: set start=RECIPE")
        recipe = resolve(tree)
        check(recipe)
    except BadSetting as bad:
        line = None if bad.key in given else line_of(bad.key, text)
        if line is None:
            raise
        raise BadSetting(bad.key, bad.message, f"{path}, line {line}") from None
    return recipe


def kind_of(name: str | Path) -> type[Task]:
    """The class of a recipe's task."""
    _, tree = text_and_tree(find(name))
    return choose(TASKS, str(tree.get("task")), "task")


def renamed_keys(tree: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, str]:
    """Old keys of settings, and new ones; an old one among the overrides is a warning."""
    kind = TASKS.get(str(tree.get("task")))
    names = old_names(Recipe) | ({} if kind is None else old_names(kind.settings, "data."))
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key in names:
            warnings.warn(f"{key} is called {names[key]} now", RenamedSetting, stacklevel=2)
    return names


def split_overrides(overrides: Sequence[str], prefix: str = START) -> tuple[list[str], list[str]]:
    """The overrides of a recipe, and those of a recipe that it needs: ``start.train.steps=100``."""
    own = [override for override in overrides if not override.startswith(prefix)]
    return own, [override.removeprefix(prefix) for override in overrides if override.startswith(prefix)]


def is_recipe(start: str | None) -> TypeGuard[str]:
    """Whether ``start`` names a recipe, which has to be trained first, and not a run."""
    if start is None or os.path.isfile(Path(start) / "recipe.toml"):  # a run comes before a recipe of its name
        return False
    return os.path.exists(FOLDER / f"{start}.toml") or Path(start).suffix == ".toml"


def refuse_recipe_as_start(recipe: Recipe) -> None:
    """Before anything is read: only a run has a tokenizer and weights."""
    if is_recipe(recipe.start):
        train = f"train it first (headway train {recipe.start})"
        raise Problem(f"start={recipe.start} is a recipe: {train}, and set start to its run")


def take_shape(tree: dict[str, Any], given: set[str], overrides: Sequence[str]) -> None:
    """Take over the model's shape, and the data settings that the task inherits, from the run or recipe to start from;
    settings ``given`` on the command line stay."""
    start = str(tree["start"])
    if is_recipe(start):
        with key_prefix(START):
            started = load(start, overrides)
    else:
        path = Path(start) / "recipe.toml"
        if not os.path.isfile(path):
            raise BadSetting("start", f"{start} is not a run: it has no {path.name}; see headway runs")
        if overrides:
            raise BadSetting(START + overrides[0], f"{start} is a run: its settings cannot be changed any more")
        started = load(path, resolved=True)
    shape = {key: getattr(started.model, key) for key in SHAPE} | {"causal": TASKS[started.task](started).is_causal}
    kind = TASKS.get(str(tree.get("task")))
    data = vars(started.data)
    for key in () if kind is None else kind.inherited:
        if key in data and f"data.{key}" not in given:
            tree.setdefault("data", {})[key] = data[key]
    if tree.get("data", {}).get("extend_vocabulary") not in (None, "none"):
        shape["head"] = with_bias(started.model.head)
    tree["model"] = tree.get("model", {}) | {key: value for key, value in shape.items() if f"model.{key}" not in given}


def check(recipe: Recipe) -> Task:
    """Try to make every part, at no cost: tensors on the meta device have a shape and no data."""
    task = TASKS[recipe.task](recipe)
    model = small_model(task)
    with torch.device("meta"):
        task.check_model(model)
    check_metrics(task)
    if recipe.train.stop_on is not None:
        check_stop_on(task, recipe.train.stop_on)
    refuse_impossible(recipe.train)
    refuse_untried(recipe.train)
    freeze(model, recipe.train.freeze)
    spec = recipe.train
    part(SCHEDULES, spec.schedule, "train.schedule", step=1, warmup=spec.warmup, steps=spec.steps)
    part(AVERAGES, spec.average, "train.average", number=1, steps=spec.steps)
    if not can(task, TrainsItself):
        rates: dict[str, Any] = {"learning_rate": spec.learning_rate, "weight_decay": spec.weight_decay}
        part(OPTIMIZERS, spec.optimizer, "train.optimizer", kind=list, model=model, **rates)
    return task


def check_metrics(task: Task) -> None:
    for name in {*task.metric_names, "loss", "examples"} & {*task.additional_metrics}:
        raise BadSetting("train.metrics", f"{name} is measured already: give yours another name")


def check_stop_on(task: Task, metric: str) -> None:
    choose(dict.fromkeys([*task.metric_names, *task.additional_metrics]), metric, "train.stop_on")
    *_, usual = (name for name in task.validation_metrics() if name not in NEITHER_IS_BETTER)
    if metric in task.test_only_metrics or (task.additional_are_test_only and metric in task.additional_metrics):
        raise BadSetting("train.stop_on", f"{metric} is only measured at the end: use {usual}")
    if metric in NEITHER_IS_BETTER:
        raise BadSetting("train.stop_on", f"neither a higher nor a lower {metric} is better: use {usual}")


def text_and_tree(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = read_text(path)
        return text, parse_toml(text)
    except (OSError, ValueError) as error:
        raise Problem(f"{path} is not a recipe: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def find(name: str | Path) -> Path:
    built_in = FOLDER / f"{name}.toml"
    path = built_in if os.path.exists(built_in) else Path(name)  # unlike those of Path, for names of any length
    if os.path.isdir(path):
        raise Problem(f"{name} is a folder: a recipe is a TOML file")
    if os.path.isfile(path) and path.suffix.lower() != ".toml":
        tasks = ["tag"] if format_of(path) in TAGGED else ["classify", "language"]
        example = ", or ".join(f"headway train {task} data.train={name}" for task in tasks)
        raise Problem(f"{name} is a file of data, not a recipe: try {example}")
    if not os.path.exists(path):
        if str(name).lower() in KNOWN_AS:
            raise Problem(
                f"no recipe {str(name)!r}: labels of words are learned with headway train tag data.train=FILE"
            )
        raise Problem(f"no recipe {str(name)!r}: neither a file nor built in; {did_you_mean(str(name), names())}")
    return path


def resolve(tree: Mapping[str, Any]) -> Recipe:
    """Nested dicts as a recipe; the type of its [data] section depends on the task."""
    if not isinstance(tree.get("task"), str):
        raise BadSetting("task", f"missing: a recipe needs a task, one of {', '.join(TASKS)}")
    task = choose(TASKS, tree["task"], "task")
    keys = [row.key for row in rows(Recipe(data=task.settings()))]
    data: Any = read(task.settings, tree.get("data", {}), keys, "data.")
    return replace(read(Recipe, {name: value for name, value in tree.items() if name != "data"}, keys), data=data)


def line_of(key: str, text: str) -> int | None:
    """The line on which a TOML text sets a dotted key."""
    section, _, name = key.rpartition(".")
    here = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\]]+)\]", line):
            here = header[1].strip()
        if re.match(rf"\s*{re.escape(name)}\s*=", line) and here == section:
            return number
    return None
