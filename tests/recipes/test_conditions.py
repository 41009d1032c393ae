"""Defaults that depend on the data or on the start, and the time that a run will take."""

from pathlib import Path

import pytest
import torch

from conftest import quick, write_pairs
from headway import recipes
from headway.api.progress import outlook
from headway.config.errors import BadSetting
from headway.recipes.conditions import CONDITIONS, MEDIUM, SMALL
from headway.runs.fit import start
from headway.runs.rehearsal import expected_seconds


def pairs(folder: Path, size: int) -> list[str]:
    for name in ("a.en", "a.de"):
        (folder / name).write_text("one two\n" * (size // 16))
    return [f"data.source={folder / 'a.en'}", f"data.target={folder / 'a.de'}"]


def test_a_translator_is_as_large_as_its_data(tmp_path: Path) -> None:
    widths = {}
    for size in (SMALL // 2, SMALL + 100, MEDIUM + 100):
        recipe = recipes.task("translate", pairs(tmp_path, size)).recipe
        widths[size] = recipe.model.width
        assert recipe.train.optimizer == "muon"
    assert list(widths.values()) == [96, 128, 256]
    small = pairs(tmp_path, SMALL // 2)
    own = recipes.task("translate", [*small, "model.width=64", "train.epochs=2", "data.vocab_size=300"]).recipe
    assert (own.model.width, own.model.layers, own.train.epochs, own.data.vocab_size) == (64, 2, 2, 300)
    assert recipes.load("translate").model.width == 256  # nobody knows of data yet


def test_conditions_of_built_in_recipes_hold_and_others_are_refused(tmp_path: Path) -> None:
    for name in recipes.names():
        _, tree = recipes.text_and_tree(recipes.find(name))
        for condition, sections in tree.get("when", {}).items():
            assert condition in CONDITIONS
            words = [
                f"{section}.{key}={value}" for section, values in sections.items() for key, value in values.items()
            ]
            recipes.load(name, words)
    own = tmp_path / "own.toml"
    for text, message in {
        "[when.smal.model]\nwidth = 8": "when.smal: no such condition; did you mean 'small'",
        "[when.small]\nwidth = 8": r"when.small: has sections of settings, such as \[when.small.train\]",
    }.items():
        own.write_text(f'task = "parity"\n{text}\n')
        with pytest.raises(BadSetting, match=message):
            recipes.load(own)


def test_the_expected_time_changes_nothing(tmp_path: Path) -> None:
    words = [*quick("classify", tmp_path), "train.steps=6", "model.dropout=0.1"]
    plain, asked = (start(recipes.load("classify", words), tmp_path / name) for name in ("plain", "asked"))
    seconds = expected_seconds(asked)
    assert seconds is not None
    assert 0 < seconds < 60
    for fit in (plain, asked):
        list(fit.steps())
    own, other = (fit.run.final_checkpoint().weights for fit in (plain, asked))
    assert all(torch.equal(own[name], other[name]) for name in own)
    assert expected_seconds(asked) is None


def test_a_long_run_says_so_before_its_first_step(tmp_path: Path) -> None:
    english, german = write_pairs(tmp_path)
    words = [f"data.source={english}", f"data.target={german}", "train.steps=100000", "train.minutes=0.5"]
    fit = start(recipes.load("translate", words), tmp_path / "run")
    assert expected_seconds(fit) == 30
    fit.lock.release()
    words = [*words[:2], "train.steps=100000000"]
    fit = start(recipes.load("translate", words), tmp_path / "other")
    line = outlook(fit)
    assert line is not None
    assert f"100,000,000 steps, with {fit.parameters:,} parameters; train.minutes=N sets a limit" in line
    fit.lock.release()
