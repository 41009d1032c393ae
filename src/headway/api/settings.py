"""What a call from Python says, as the overrides of a recipe."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union, runtime_checkable

from headway import recipes
from headway.config import imports
from headway.config.errors import BadSetting, Problem
from headway.config.settings import override
from headway.data import memory
from headway.recipes.registry import register
from headway.runs import run as runs

if TYPE_CHECKING:
    from headway.api.model import Model


@runtime_checkable
class ArrowTable(Protocol):
    """A table that other libraries can read, such as those of pandas, polars and pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Source = str | Path | Iterable[object] | ArrowTable  # a file, or data from memory
Settings = Sequence[str] | Mapping[str, Any]  # ["model.width=16"] or {"model.width": 16}
Trust = str | Sequence[str]  # Python functions, "my_module:my_function", that a recipe or a run may name
Start = Union[str, Path, runs.Run, "Model"]
RewardFunction = Callable[[Sequence[str], Sequence[str]], Iterable[float]]  # (prompts, answers) -> rewards
Metric = Callable[[Sequence[str], Sequence[str]], float]
Metrics = str | Metric | Iterable[str | Metric] | Mapping[str, Metric]
PARTS = ("train", "validation", "test")


def overrides_of(
    recipe: str | Path,
    data: Any = None,
    validation: Any = None,
    test: Any = None,
    model: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
    start: Any = None,
    reward: Any = None,
    metrics: Any = None,
    settings: Settings = (),
) -> list[str]:
    """All arguments of ``train`` that change a recipe, in the form of the command line."""
    overrides: list[str] = []
    for section, values in {"model": model, "train": train}.items():
        if values is not None and not isinstance(values, Mapping):
            raise BadSetting(section, f"{values!r:.80} is not a dict of settings, such as {{'{EXAMPLES[section]}}}")
        overrides += [text_of(f"{section}.{key}", value) for key, value in (values or {}).items()]
    overrides += data_overrides(recipe, data, validation, test)
    if start is not None:
        overrides.append(text_of("start", start))
    if reward is not None:
        overrides.append(text_of("data.reward", reward))
    if metrics is not None:
        overrides.append(f"train.metrics={' '.join(metric_names(metrics))}")
    others = texts_of(settings)
    given = {text.partition("=")[0] for text in overrides}
    for text in others:
        if (key := text.partition("=")[0].strip()) in given:
            raise BadSetting(key, "given twice, in settings and beside them: pass it once")
    return own([*others, *overrides])


EXAMPLES = {"model": "layers': 2", "train": "steps': 600"}


def texts_of(settings: Settings) -> list[str]:
    """Settings as ``key=value``."""
    if isinstance(settings, Mapping):
        return own([text_of(key, value) for key, value in settings.items()])
    if isinstance(settings, str):
        raise Problem(f"settings are a list or a dict, not a text: pass [{settings!r}]")
    return own(list(settings))


def own(overrides: list[str]) -> list[str]:
    """The caller's own settings: a Python function that they name is trusted."""
    for text in overrides:
        key, _, values = text.partition("=")
        for value in values.split(","):  # of an axis of a study
            imports.trust_own(key, value)
    return overrides


def text_of(key: str, value: Any) -> str:
    """A setting as ``key=value``. A run or a model stands for its folder, and a Python object becomes a choice."""
    if not isinstance(key, str):
        raise Problem(f"{key!r} is not the name of a setting")
    if isinstance(value, runs.Run):
        return override(key, value.folder)
    if isinstance(own := getattr(value, "run", None), runs.Run):  # of a Model
        return override(key, own.folder)
    if callable(value):
        value = register(key.replace(".encoder_", "."), value)
    return override(key, value)


def metric_names(metrics: Any) -> list[str]:
    """``{"name": function}``, or names and functions."""
    if isinstance(metrics, Mapping):
        return [register("train.metrics", function, str(name)) for name, function in metrics.items()]
    listed = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
    return [each if isinstance(each, str) else register("train.metrics", each) for each in listed]


# --- data


def data_overrides(recipe: str | Path, data: Any, validation: Any, test: Any) -> list[str]:
    given: dict[str, Any] = {"train": data}
    if isinstance(data, Mapping) and not is_columns(data):  # settings of the section
        given = dict(data)
    for use, value in {"validation": validation, "test": test}.items():
        if value is not None:
            if use in given:
                raise BadSetting(f"data.{use}", "given twice: pass it once")
            given[use] = value
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return []
    kind = recipes.kind_of(recipe)
    columns = () if kind.generates_data else kind.columns
    names = {key: value for key, value in given.items() if isinstance(value, str) and key not in PARTS}
    return [
        text_of(f"data.{key}", source_of(columns, key, value, names) if key in PARTS else value)
        for key, value in given.items()
    ]


def is_columns(data: Mapping[Any, Any]) -> bool:
    """Whether a dict is a table, with a list for each column, and not a dict of settings."""
    lists = [not isinstance(value, str | bytes) and isinstance(value, Iterable) for value in data.values()]
    return bool(lists) and all(lists) and not set(PARTS) & set(data)


def source_of(columns: Sequence[str], use: str, value: Any, names: Mapping[str, Any]) -> Any:
    """A path, a share, or the file that data from memory are written to."""
    if isinstance(value, int | float | str | Path):
        if use == "train" and isinstance(value, str) and columns:
            refuse_missing_file(value)
        return value
    if isinstance(value, tuple) and value and all(isinstance(each, str | Path) for each in value):
        for each in value:
            refuse_missing_file(str(each))
        return ",".join(str(each) for each in value)
    if not columns:
        raise BadSetting(f"data.{use}", "this task generates its own data: leave it out")
    return memory.keep(value, columns, names)


def refuse_missing_file(text: str) -> None:
    """A text that is no file was probably meant as data."""
    try:
        exists = Path(text).exists() or any(Path(part.strip()).exists() for part in text.split(","))
    except OSError:  # too long for a name
        exists = False
    if not exists:
        shown = text if len(text) <= 60 else f"{text[:59]}…"
        here = f"there is no file {shown!r} (current folder: {Path.cwd()})"
        raise Problem(f"{here}: pass a path, or the data themselves in lists")


FILE = re.compile(rf"\S*{memory.NAME.pattern}")
LINE = re.compile(rf"{FILE.pattern}, line (\d+)")


def about_data(message: str) -> str:
    """A message that speaks of the user's data, not of the file that they were written to."""
    message = LINE.sub(lambda match: f"the data, row {int(match[1]) - 1}", message)
    return FILE.sub("the data", message)


@contextmanager
def clear_messages() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        message = about_data(str(problem))
        if message == str(problem):
            raise
        raise Problem(message) from None
