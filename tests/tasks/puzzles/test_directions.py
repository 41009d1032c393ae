"""Numbers among many languages: which directions are trained, how often, and which are measured as zero-shot."""

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway as hw
from conftest import Outcome
from headway import recipes
from headway.config.errors import BadSetting
from headway.data.directions import Direction, among, directions_in
from headway.tasks import TASKS
from headway.tasks.puzzles.numbers import Numbers
from headway.text.spelling import read

Headway = Callable[..., Outcome]
KEY = "data.directions"
FEW = ["data.examples=600", "data.tests=60"]


def task_with(*overrides: str, forms: str = "en de fr it") -> Numbers:
    task = TASKS["numbers"](recipes.load("numbers", [*FEW, f"data.forms={forms}", *overrides]))
    assert isinstance(task, Numbers)
    return task


def directions_of(data: Any) -> Counter[Direction]:
    return Counter({direction: len(rows) for direction, rows in data.rows_by_direction.items()})


@pytest.mark.parametrize(
    ("text", "directions"),
    [
        ("*-*", "en-de en-fr de-en de-fr fr-en fr-de"),
        ("en", "en-de en-fr de-en fr-en"),
        ("*-en,en-*", "en-de en-fr de-en fr-en"),
        ("*-en", "de-en fr-en"),
        ("de-en, en-fr", "en-fr de-en"),
        ("fr,de-en", "en-fr de-en de-fr fr-en fr-de"),
    ],
)
def test_directions_by_name(text: str, directions: str) -> None:
    assert " ".join(map(str, directions_in(text, ["en", "de", "fr"], KEY))) == directions


def test_what_is_trained_and_what_is_zero_shot() -> None:
    task = task_with("data.directions=en,fr-it")
    splits = task.splits()
    trained = {*directions_in("en", task.forms, KEY), Direction("fr", "it")}
    assert directions_of(splits.train).keys() == trained == task.trained_directions()
    assert directions_of(splits.validation["validation"]).keys() == trained
    assert list(splits.test) == ["trained directions", "zero-shot directions"]
    assert directions_of(splits.test["trained directions"]).keys() == trained
    others = directions_of(splits.test["zero-shot directions"])
    assert others == dict.fromkeys(set(among(task.forms)) - trained, 12)
    for data in splits.sets.values():
        for direction, own in task.by_direction(data).items():
            for tokens, target in zip(own.sources_of(), own.references, strict=True):
                into, _, number = task.tokenizer.decode(tokens).partition(" ")
                assert into == direction.target
                assert read(direction.source, number) == read(direction.target, target) is not None
    train, unseen = (
        {read(direction.target, text) for direction, own in task.by_direction(data).items() for text in own.references}
        for data in (splits.train, splits.test["zero-shot directions"])
    )
    assert not train & unseen


def test_the_shares_are_those_that_were_asked_for() -> None:
    task = task_with("data.shares=en=0.5,de=0.3,fr=0.2,it=0", "data.examples=20000")
    splits = task.splits()
    counts = directions_of(splits.train)
    products = {("en", "de"): 0.15, ("en", "fr"): 0.1, ("de", "fr"): 0.06}
    total = 2 * sum(products.values())
    for direction, count in counts.items():
        share = products.get(direction, products.get((direction.target, direction.source), 0)) / total
        assert abs(count / 20_000 - share) < 4 * np.sqrt(share * (1 - share) / 20_000)
    assert counts.keys() == task.trained_directions() == directions_of(splits.test["trained directions"]).keys()
    assert all("it" in direction for direction in directions_of(splits.test["zero-shot directions"]))


def test_a_share_of_the_training_data_are_copies() -> None:
    task = task_with("data.directions=en", "data.copies=0.2", "data.examples=10000")
    splits = task.splits()
    counts = directions_of(splits.train)
    copies = {direction: count for direction, count in counts.items() if direction.source == direction.target}
    assert abs(sum(copies.values()) / 10_000 - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 10_000)
    assert {direction.source for direction in copies} == set(task.forms)
    assert counts.keys() - copies.keys() == task.trained_directions()
    for data in (*splits.validation.values(), *splits.test.values()):
        assert not any(direction.source == direction.target for direction in directions_of(data))
    for direction in copies:
        own = task.by_direction(splits.train)[direction]
        for tokens, target in zip(own.sources_of(20), own.references, strict=False):
            assert task.tokenizer.decode(tokens) == f"{direction.target} {target}"


def test_a_mixture_of_directions_is_that_of_the_formula() -> None:
    task = task_with("data.directions=en", "data.shares=en=0.5,de=0.4,fr=0.09,it=0.01", "data.mixture=uniform")
    data = task.splits().train
    sampler = data.sampler(task.recipe.train)
    rows = np.concatenate([batch for epoch in range(20) for batch in sampler.epoch(epoch)])
    counts = directions_of(data.take(rows))
    assert len(counts) == 6
    for count in counts.values():
        assert abs(count / len(rows) - 1 / 6) < 0.01


def test_data_are_a_function_of_the_seed() -> None:
    setting = ("data.directions=en", "data.shares=en=0.5,de=0.3,fr=0.1,it=0.1")
    first, again, other = (task_with(*setting, f"train.seed={seed}").splits().sets for seed in (1, 1, 2))
    assert {name: data.key for name, data in first.items()} == {name: data.key for name, data in again.items()}
    assert all(data.key != other[name].key for name, data in first.items())


def test_the_usual_four_are_as_they_always_were() -> None:
    """Old runs repeat: their texts, in this order, and their tokens, which are those of all four."""
    data = TASKS["numbers"](recipes.load("numbers", FEW)).splits().train
    text = "\n".join(data.references)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "8f7d9489d23f825c"
    four, two = task_with(forms="en de fr digits"), task_with(forms="digits en")
    assert four.tokenizer.core.to_str() == two.tokenizer.core.to_str() != task_with().tokenizer.core.to_str()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.forms=en dee", "data.forms: unknown form 'dee'; did you mean 'de'?"),
        ("data.forms=en en", "data.forms: name at least two forms to translate between, and each once"),
        ("data.directions=es", "data.directions: 'es' is not a direction between two of en, de, fr, it"),
        ("data.directions=en-es", "data.directions: 'en-es' is not a direction between two of en, de, fr, it"),
        ("data.directions=*", "data.directions: '*' is not a direction between two of en, de, fr, it"),
        ("data.directions=en-de", "data.directions: 'en-de' has none from or into 'fr'"),
        ("data.directions=en-en", "data.directions: 'en-en' is from a language into itself"),
        ("data.shares=en=0.5,de=0.4", "data.shares: it has no share for 'fr'"),
        ("data.shares=en=0.5,de=0.4,fr=0.2,it=0.2", "data.shares: the shares add up to 1.3, not to 1"),
        ("data.shares=en=0.5,es=0.5", "data.shares: there are no texts in 'es'"),
        ("data.shares=en=1,de=0,fr=0,it=0", "data.shares: data.directions has no direction between two languages"),
        ("data.shares=proportional", "data.shares: "),
        ("data.mixture=unifrm", "data.mixture: "),
        ("data.mixture=en-de=0.5,xx=0.5", "data.mixture: "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(override: str, message: str) -> None:
    with pytest.raises(BadSetting) as error:
        task_with(override).splits().train.sampler(recipes.load("numbers").train)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_matrix_of_exact_answers(headway: Headway, tmp_path: Path) -> None:
    data = {"forms": "en de digits", "directions": "en", "examples": 200, "tests": 12, "max_length": 12}
    small = {"layers": 1, "width": 16, "heads": 2}
    model = hw.train("numbers", data=data, model=small, train={"steps": 2, "warmup": 1}, out=tmp_path / "run")
    (matrix,) = model.evaluate().directions()
    assert matrix.metric == "exact"
    assert matrix.title == "trained directions and zero-shot directions"
    assert set(matrix.means) == {"mean over trained directions", "mean over zero-shot directions"}
    assert matrix.scores.keys() == set(among(["en", "de", "digits"]))
    assert matrix.trained == set(directions_in("en", ["en", "de", "digits"], KEY))
    saved = model.run.results["directions"]["zero-shot directions"]
    assert [(row["source"], row["target"], row["trained"]) for row in saved["scores"]] == [
        ("de", "digits", False),
        ("digits", "de", False),
    ]
    shown = headway("evaluate", str(tmp_path / "run"))
    assert "mean over zero-shot directions" in shown.out
    assert "from \\ to" in shown.out
