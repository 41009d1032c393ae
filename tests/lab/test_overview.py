"""A recipe or a run at a glance: what `show` and `check` say of each of them before anything is trained."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome, done, policy_of_letters, quick, train_letters
from headway import recipes
from headway.lab import preflight
from headway.runs.fit import start

Headway = Callable[..., Outcome]
SMALL = ["model.layers=1", "model.width=16", "model.heads=2"]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "OVERFIT_STEPS", 2)


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_can_be_shown_and_checked_or_says_what_it_needs(
    name: str, headway: Headway, tmp_path: Path
) -> None:
    first = recipes.load(name, settings := quick(name, tmp_path)).start
    if not recipes.is_recipe(first):
        settings += SMALL
    for verb in ("show", "check"):
        outcome = headway(verb, name, *settings)
        if recipes.is_recipe(first):
            needed = f"start={first} is a recipe: train it first (headway train {first}), and set start to its run"
            assert (outcome.code, outcome.err) == (2, f"headway: {needed}\n")
        else:
            assert outcome.err == ""
            assert outcome.code in ((0,) if verb == "show" else (0, 1))
            assert ("parameters" if verb == "show" else "examples") in outcome.out


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_letters(tmp_path_factory.mktemp("letters"))


@pytest.fixture
def policy(letters: Path, tmp_path: Path) -> list[str]:
    """Settings of a policy whose reward can be opened."""
    few = ["data.max_new_tokens=4", "data.rollouts=8", "train.batch_size=4", "train.steps=2"]
    return policy_of_letters(letters, tmp_path, "length(target=2)", *few)


def test_a_policy_is_shown_without_its_reward(policy: list[str], headway: Headway) -> None:
    """Its answers have the maximum length, and its reference is not counted."""
    nowhere = ["data.reward=runs/nowhere-1"]
    shown = headway("show", "ppo", *policy, *nowhere)
    assert (shown.code, shown.err) == (0, "")
    parameters, tokens = 3_473, 4 * (2 + 4)
    assert f"{parameters:,} parameters; a training step of 4 examples" in shown.out
    assert f"1 x {tokens} x 16" in shown.out
    assert "data.reward" in headway("check", "ppo", *policy, *nowhere).err


def test_a_policy_is_checked_as_before_its_training(policy: list[str], headway: Headway) -> None:
    outcome = headway("check", "ppo", *policy)
    assert (outcome.code, outcome.err) == (0, "")
    for finding in ("examples: train 8", "preflight: the ratio is 1", "time: about"):
        assert finding in outcome.out


def test_a_trained_policy_is_shown(policy: list[str], headway: Headway, tmp_path: Path) -> None:
    run = done(start(recipes.load("ppo", policy), tmp_path / "ppo")).run
    outcome = headway("show", str(run.folder))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith(f"next: headway evaluate {run.folder}\n")
