"""Mixtures: shares by hand and by another algorithm, and orders of rows and windows that keep to them."""

import inspect
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from headway import recipes
from headway.config.errors import BadSetting
from headway.data.language_stream import LanguageStream, MixedWindowSampler
from headway.data.languages import Languages
from headway.data.mixtures import MIXTURES, MixedOrder, Mixture, shares_of

SIZES = {"en": 8000.0, "de": 3000.0, "fi": 500.0, "sw": 40.0}
BUDGET = 9000.0
Shares = Callable[[dict[str, float], float], np.ndarray]


def shares_by(name: str) -> Shares:
    return lambda sizes, budget: shares_of(name, sizes, budget)


def water_level(sizes: np.ndarray, budget: float, epochs: float) -> np.ndarray:
    """UniMax by bisection: the level at which languages, each up to ``epochs`` of its size, fill the budget."""
    low, high = 0.0, float(budget)
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if np.minimum(level, epochs * sizes).sum() < budget else (low, level)
    return np.minimum(high, epochs * sizes)


def test_shares_by_hand() -> None:
    assert shares_of("proportional", {"a": 3, "b": 1}, 1).tolist() == [0.75, 0.25]
    assert shares_of("temperature(alpha=0.5)", {"a": 9, "b": 4, "c": 1}, 1).tolist() == pytest.approx(
        [3 / 6, 2 / 6, 1 / 6]
    )
    assert shares_of("uniform", {"a": 9, "b": 1}, 1).tolist() == [0.5, 0.5]
    # 100 tokens over 3 languages; c has 5 and may be read four times: 20, and the others share the 80 that are left.
    assert shares_of("unimax(epochs=4)", {"a": 50, "b": 1000, "c": 5}, 100).tolist() == pytest.approx([0.4, 0.4, 0.2])
    assert shares_of("a=0.7, b = 0.3", {"a": 1, "b": 1}, 1).tolist() == [0.7, 0.3]


@pytest.mark.parametrize("epochs", [0.5, 1, 4, 30])
@pytest.mark.parametrize("budget", [10.0, 900.0, 20_000.0])
def test_unimax_is_the_level_to_which_water_rises(epochs: float, budget: float) -> None:
    sizes = np.array(list(SIZES.values()))
    if budget > epochs * sizes.sum():
        budget = epochs * sizes.sum()
    given = water_level(sizes, budget, epochs)
    assert shares_of(f"unimax(epochs={epochs})", SIZES, budget) == pytest.approx(given / given.sum(), abs=1e-9)


@pytest.mark.parametrize("name", MIXTURES)
def test_laws_of_every_mixture(name: str) -> None:
    shares = shares_by(name)
    own = shares(SIZES, BUDGET)
    assert own.sum() == pytest.approx(1)
    assert (own > 0).all()
    assert (np.diff(own) <= 1e-12).all()  # more text, no smaller share
    backwards = shares(dict(reversed(SIZES.items())), BUDGET)
    assert backwards[::-1] == pytest.approx(own)
    in_thousands = shares({name: size / 1000 for name, size in SIZES.items()}, BUDGET / 1000)
    assert in_thousands == pytest.approx(own)  # whatever the unit
    assert shares({"en": 7.0}, BUDGET).tolist() == [1.0]


@pytest.mark.parametrize(
    ("rule", "same"), [("temperature(alpha=0)", "uniform"), ("temperature(alpha=1)", "proportional")]
)
def test_temperature_ends_in_uniform_and_proportional(rule: str, same: str) -> None:
    assert shares_of(rule, SIZES, BUDGET) == pytest.approx(shares_of(same, SIZES, BUDGET))


def languages_of(counts: list[int]) -> Languages:
    rows = np.repeat(np.arange(len(counts)), counts)
    return Languages(["en", "de", "sw"], np.random.default_rng(0).permutation(rows))


MIXED = ["proportional", "temperature(alpha=0.3)", "uniform", "unimax(epochs=2)", "en=0.2,de=0.3,sw=0.5"]


@pytest.mark.parametrize("text", MIXED)
def test_examples_are_drawn_by_their_shares(text: str) -> None:
    languages = languages_of([800, 170, 30])
    sizes = np.array([800.0, 170.0, 30.0])
    shares = Mixture(text).shares(languages.names, sizes, 10_000)
    order = MixedOrder(languages, np.ones(1000), shares, seed=5)
    drawn = np.concatenate([order(epoch) for epoch in range(10)])
    assert len(drawn) == pytest.approx(10_000, abs=3)  # of each language, up to one
    counts = np.bincount(languages.rows[drawn], minlength=3)
    assert counts == pytest.approx(10_000 * shares, abs=1.001)
    times = np.bincount(drawn, minlength=1000)
    for language in range(3):  # no text is read twice more often than another of its language
        own = times[languages.rows == language]
        assert own.max() - own.min() <= 2


@pytest.mark.parametrize("text", MIXED)
def test_windows_are_drawn_by_their_shares(text: str) -> None:
    bounds = np.array([[0, 8000], [8000, 9700], [9700, 10_000]])
    shares = Mixture(text).shares(["en", "de", "sw"], np.diff(bounds)[:, 0], 160_000)
    sampler = MixedWindowSampler(bounds, shares, window=16, batch_size=1, seed=5)
    starts = np.concatenate([rows for epoch in range(17) for rows in sampler.epoch(epoch)])[:10_000]
    assert len(starts) == 10_000
    counts = np.bincount(np.searchsorted(bounds[:, 0], starts, side="right") - 1, minlength=3)
    assert counts == pytest.approx(10_000 * shares, abs=2 + 0.03 * 10_000 / 17)  # the last epoch is cut anywhere
    whole = np.concatenate([rows for epoch in range(16) for rows in sampler.epoch(epoch)])
    counts = np.bincount(np.searchsorted(bounds[:, 0], whole, side="right") - 1, minlength=3)
    assert counts == pytest.approx(16 * sampler.windows * shares, abs=1.001)


def test_examples_count_by_their_tokens() -> None:
    languages, sizes = languages_of([500, 400, 100]), np.ones(1000)
    sizes[languages.rows == 2] = 20
    order = MixedOrder(languages, sizes, np.array([0.25, 0.25, 0.5]), seed=5)
    drawn = np.concatenate([order(epoch) for epoch in range(20)])
    read = np.bincount(languages.rows[drawn], weights=sizes[drawn], minlength=3)
    assert read / read.sum() == pytest.approx([0.25, 0.25, 0.5], abs=0.002)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    languages, shares = languages_of([50, 40, 10]), np.array([0.2, 0.3, 0.5])
    first, second = (MixedOrder(languages, np.ones(100), shares, seed=3) for _ in range(2))
    orders = [first(epoch).tolist() for epoch in range(5)]
    assert [second(epoch).tolist() for epoch in (4, 0, 2)] == [orders[4], orders[0], orders[2]]
    assert len({tuple(order) for order in orders}) == 5
    assert MixedOrder(languages, np.ones(100), shares, seed=4)(0).tolist() != orders[0]


def test_each_pass_over_a_small_language_has_another_order() -> None:
    languages, shares = languages_of([90, 5, 5]), np.array([0.0, 0.0, 1.0])
    order = MixedOrder(languages, np.ones(100), shares, seed=3)(0)
    assert Counter(order.tolist()).most_common()[-1][1] >= 19
    assert set(languages.rows[order]) == {2}


def test_a_share_of_zero_leaves_a_language_out() -> None:
    languages = languages_of([50, 40, 10])
    shares = Mixture("en=0,de=0.5,sw=0.5").shares(languages.names, np.array([50.0, 40.0, 10.0]), 100)
    assert 0 not in languages.rows[MixedOrder(languages, np.ones(100), shares, seed=3)(0)]


def test_replay_gives_old_languages_their_share_together() -> None:
    names, sizes = ["en", "de", "fi", "sw"], np.array([8.0, 2.0, 3.0, 1.0])
    shares = Mixture("proportional", frozenset({"en", "de"}), 0.1).shares(names, sizes, 100)
    assert shares == pytest.approx([0.08, 0.02, 0.675, 0.225])
    none = Mixture("proportional", frozenset({"en", "de"}), 0.0).shares(names, sizes, 100)
    assert none == pytest.approx([0, 0, 0.75, 0.25])


def test_windows_go_round_in_a_circle() -> None:
    tokens = np.arange(100, dtype=np.uint16)
    stream = LanguageStream(
        tokens, 8, mark=None, key="", names=["en", "sw"], bounds=np.array([[0, 97], [97, 100]]), mixture=Mixture()
    )
    batch = stream.batch(np.array([95, 98]))
    assert batch.inputs.tolist() == [[95, 96, 0, 1, 2, 3, 4, 5], [98, 99, 97, 98, 99, 97, 98, 99]]
    assert batch.targets.tolist() == [[96, 0, 1, 2, 3, 4, 5, 6], [99, 97, 98, 99, 97, 98, 99, 97]]
    assert {name: own.tokens.tolist() for name, own in stream.by_language().items()}["sw"] == [97, 98, 99]


def test_every_target_of_every_language_is_measured_once() -> None:
    tokens = np.arange(100, dtype=np.uint16)
    bounds = np.array([[0, 60], [60, 60], [60, 100]])
    stream = LanguageStream(tokens, 8, mark=None, key="", names=["a", "b", "c"], bounds=bounds, mixture=Mixture())
    seen: list[int] = []
    for _, batch in stream.batches(tokens=32):
        seen += (batch.targets if batch.weights is None else batch.targets[batch.weights]).flatten().tolist()
    assert sorted(seen) == [*range(1, 60), *range(61, 100)]  # but the first of each language


def test_the_unit_of_a_plan_is_that_of_its_steps() -> None:
    spec = recipes.load("language", ["train.steps=50", "train.batch_size=4"]).train
    plan = Mixture("uniform").plan(["en", "sw"], np.array([1000.0, 100.0]), spec, a_step=4 * 10)
    assert plan.budget == 2000
    assert plan.epochs.tolist() == [1.0, 10.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unifrom", "uniform"),
        ("temperature(beta=1)", "beta"),
        ("temperature(alpha=nan)", "alpha"),
        ("temperature(alpha=-1)", "alpha=-1 is not a number from 0 on"),
        ("unimax(epochs=0)", "epochs=0 is not above 0"),
        ("en=0.5,de=0.2", "no share for 'fi'"),
        ("en=0.5,de=0.2,fi=0.1,sw=0.1", "add up to 0.9, not to 1"),
        ("en=0.5,de=0.5,fi=0,sw=0,xx=0", "no texts in 'xx'"),
        ("en=1,en=0,de=0,fi=0,sw=0", "'en' has two shares"),
        ("en=a,de=0,fi=0,sw=0", "'a', not a number from 0 to 1"),
        ("en=1.5,de=-0.5,fi=0,sw=0", "not a number from 0 to 1"),
    ],
)
def test_mixtures_that_are_none(text: str, message: str) -> None:
    with pytest.raises(BadSetting, match=message.replace("(", r"\(")) as error:
        shares_of(text, SIZES, BUDGET)
    assert "data.mixture" in str(error.value)


def test_every_mixture_takes_sizes_and_has_defaults() -> None:
    for function in MIXTURES.values():
        own = inspect.signature(function).parameters.values()
        assert all(each.name in ("sizes", "budget") or each.default is not each.empty for each in own)
