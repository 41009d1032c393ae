"""Settings that had other names before: files say nothing of it, the command line gets one line with the new name."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from conftest import Outcome
from headway import recipes
from headway.config.errors import RenamedSetting
from headway.config.recipe import Recipe
from headway.config.settings import old_names, rows
from headway.tasks import TASKS


def tasks_with_old_names() -> Iterator[tuple[str, str, str]]:
    for task, kind in TASKS.items():
        for old, new in (old_names(Recipe) | old_names(kind.settings, "data.")).items():
            yield task, old, new


def value_for(task: str, key: str) -> Any:
    """Another value than the default, of its type."""
    value = next(row.value for row in rows(Recipe(data=TASKS[task].settings())) if row.key == key)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2
    return {"model.qk_norm": "rmsnorm", "data.kl_penalty": "adaptive", "data.kl_estimator": "k3"}.get(key, 7)


@pytest.mark.parametrize(("task", "old", "new"), list(tasks_with_old_names()))
def test_a_file_with_an_old_name_is_read_in_silence(task: str, old: str, new: str, tmp_path: Path) -> None:
    value = value_for(task, new)
    section, _, name = old.rpartition(".")
    written = (
        str(value).lower() if isinstance(value, bool) else value if isinstance(value, int | float) else f'"{value}"'
    )
    path = tmp_path / "old.toml"
    path.write_text(f'task = "{task}"\n[{section}]\n{name} = {written}\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recipe = recipes.load(path, resolved=True)
    found = next(row.value for row in rows(recipe) if row.key == new)
    assert str(found) == str(value)


def test_an_old_name_on_the_command_line_wins_and_is_told() -> None:
    with pytest.warns(RenamedSetting, match="train.batch is called train.batch_size now") as told:
        recipe = recipes.load("parity", ["train.batch=8"])
    assert recipe.train.batch_size == 8  # though the recipe itself has a batch size
    assert len(told) == 1


@pytest.mark.filterwarnings("default::headway.config.errors.RenamedSetting")
def test_the_command_line_says_it_in_one_line(headway: Callable[..., Outcome]) -> None:
    outcome = headway("show", "parity", "train.batch=7", "model.layers=1")
    assert (outcome.code, outcome.err) == (0, "headway: note: train.batch is called train.batch_size now\n")
    assert "a training step of 7 examples" in outcome.out


def test_parts_that_had_other_names_are_known(tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    path.write_text('task = "ppo"\n[data]\nadvantage = "estimated(discount=1, trace=0.9)"\n')
    assert recipes.load(path, resolved=True).data.advantage == "gae(discount=1, gae_lambda=0.9)"
    path.write_text('task = "ppo"\n[data]\nadvantage = "grouped"\n')
    assert recipes.load(path, resolved=True).data.advantage == "grpo"


def test_no_old_name_is_a_new_one() -> None:
    for kind in TASKS.values():
        names = {field.name for field in fields(kind.settings)}
        assert not {old.removeprefix("data.") for old in old_names(kind.settings, "data.")} & names
