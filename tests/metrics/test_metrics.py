"""Scores of classes and paired tests, against numbers worked by hand and exact probabilities."""

import math
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import stats

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.lab.search_space import Goal
from headway.lab.statistics import paired_difference, paired_p
from headway.lab.survey import duplicates
from headway.metrics import NEITHER_IS_BETTER, gain
from headway.metrics.classification import (
    METRICS,
    Predictions,
    calibration,
    confusion,
    precision_recall_f1,
    report,
)
from headway.recipes import check_stop_on
from headway.tasks import TASKS

# true classes, predicted classes, confidence
PREDICTIONS = Predictions(
    np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 2, 1]), np.array([0.9, 0.6, 0.9, 0.5, 0.4, 0.95])
)


def test_confusion_and_f1_by_hand() -> None:
    counts = confusion(PREDICTIONS, 4)
    assert counts.tolist() == [[2, 1, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    precision, recall, f1 = precision_recall_f1(counts)
    assert precision == pytest.approx([1, 1 / 3, 0, 0])
    assert recall == pytest.approx([2 / 3, 1 / 2, 0, 0])
    assert f1 == pytest.approx([4 / 5, 2 / 5, 0, 0])


def test_calibration_by_hand() -> None:
    error, bins = calibration(PREDICTIONS)
    assert [(each.low, each.count, each.accuracy) for each in bins] == [
        (0.4, 1, 0.0),
        (0.5, 1, 1.0),
        (0.6, 1, 1.0),
        (0.9, 3, pytest.approx(1 / 3)),
    ]
    expected = (0.4 + 0.5 + 0.4 + 3 * abs((0.9 + 0.9 + 0.95) / 3 - 1 / 3)) / 6
    assert error == pytest.approx(expected)


def test_a_calibrated_model_has_no_error() -> None:
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1, 200_000)
    predicted = (random.uniform(size=200_000) < confidence).astype(int)
    error, _ = calibration(Predictions(np.ones(200_000, int), predicted, confidence))
    assert error < 0.005


@pytest.mark.parametrize(("better", "worse"), [(60, 40), (520, 480), (55, 55), (700, 600), (4, 0), (1, 0), (5, 1)])
def test_the_paired_test_is_the_exact_one(better: int, worse: int) -> None:
    """McNemar's exact test: heads and tails of a fair coin, as far from the middle as these."""
    count = better + worse
    exact = sum(comb(count, heads) for heads in range(count + 1) if abs(2 * heads - count) >= better - worse) / 2**count
    differences = [1.0] * better + [-1.0] * worse + [0.0] * 1000
    assert paired_p(differences) == pytest.approx(exact, rel=1e-9)


def test_differences_of_means_over_seeds_are_tested_by_all_their_signs() -> None:
    differences = [1.0, -1 / 3, 2 / 3, 1 / 3, 0.0, 1.0, -2 / 3]
    sizes = [abs(each) for each in differences if each]
    sums = [sum(sign * size for sign, size in zip(signs, sizes, strict=True)) for signs in product((1, -1), repeat=6)]
    exact = np.mean([abs(each) >= sum(differences) - 1e-9 for each in sums])
    assert paired_p(differences) == pytest.approx(exact)
    # Thirds, of which none is a single third: the unit is not the smallest difference.
    assert paired_p([2 / 3, 1.0]) == paired_p([-2 / 3, -1.0]) == 0.5
    coins, large = (stats.binom.pmf(np.arange(count + 1), count, 0.5) for count in (2000, 3))
    wide = np.zeros(3 * 4 + 1)
    wide[::4] = large  # steps of 4, as wide as two of the others
    chances = np.convolve(np.repeat(coins, 2)[: 2 * 2000 + 1] * (np.arange(4001) % 2 == 0), wide)
    beyond = np.array([1.0] * 1060 + [-1.0] * 940 + [2.0] * 3)  # too many to compute: with a correction for continuity
    assert paired_p(beyond) == pytest.approx(
        chances[np.abs(np.arange(len(chances)) - 2006) >= beyond.sum()].sum(), abs=5e-5
    )
    many = np.tile(differences, 400)  # beyond the limit: close to the exact one all the same
    assert paired_p(many) == pytest.approx(paired_p(many[:2300]), abs=0.02)


@pytest.mark.parametrize(("better", "worse"), [(4, 0), (5, 0), (6, 0), (9, 2), (30, 12)])
def test_the_interval_of_a_difference_agrees_with_the_test(better: int, worse: int) -> None:
    """Bonett & Price's interval, by hand."""
    differences = np.array([1.0] * better + [-1.0] * worse + [0.0] * (200 - better - worse))
    more, less = (better + 1) / 202, (worse + 1) / 202
    margin = 1.959964 * math.sqrt((more + less - (more - less) ** 2) / 202)
    assert paired_difference(differences) == pytest.approx(
        ((better - worse) / 200, more - less - margin, more - less + margin), abs=1e-6
    )
    assert (paired_difference(differences).low > 0) == (paired_p(differences) < 0.05)


BETTER = {  # whether a higher (1) or a lower (-1) value of a metric is better, or neither is (0)
    **{"accuracy": 1, "exact": 1, "chrf": 1, "bleu": 1, "reward": 1, "f1": 1, "mcc": 1, "balanced_accuracy": 1},
    **{"loss": -1, "bits_per_byte": -1},
    **{"kl": 0, "entropy": 0, "length": 0, "ended": 0},
}


def test_each_metric_says_which_way_is_better_or_is_refused() -> None:
    assert set(BETTER) == {name for task in TASKS.values() for name in task.metric_names} | set(METRICS)
    for name, better in BETTER.items():
        assert (name in NEITHER_IS_BETTER) == (better == 0)
        assert better == 0 or gain(name, 2.0, 1.0) == better
    for name, task in TASKS.items():
        for metric in task.validation_metrics():
            if BETTER[metric] == 0:
                with pytest.raises(Problem, match=f"neither a higher nor a lower {metric} is better: use reward"):
                    check_stop_on(task(Recipe(task=name, data=task.settings())), metric)
                with pytest.raises(Problem, match=f"neither a higher nor a lower {metric} is better"):
                    Goal.parse(f"{metric}<1", task.validation_metrics())
    assert Goal.parse("reward>-0.5", ["reward"]).shortfall(Goal("reward", 0).hopeless) > 0


def test_no_difference_is_no_difference() -> None:
    assert paired_p([0.0] * 10) == 1.0


def test_chance_finds_a_difference_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    significant = [paired_p(random.choice([-1.0, 0.0, 1.0], 300)) < 0.05 for _ in range(2000)]
    assert 0.02 < np.mean(significant) < 0.06  # at most 0.05, since only some values are possible


def test_classes_that_are_neither_there_nor_said_are_in_no_mean() -> None:
    predictions = Predictions(np.array([0, 1]), np.array([0, 1]), np.array([0.9, 0.9]))
    assert report(predictions, ["a", "b", "c"])["f1"] == 1.0


def test_a_text_with_three_labels_is_one_text() -> None:
    texts, labels = np.array([5, 5, 5, 6, 6, 7], np.uint64), np.array([0, 1, 2, 0, 0, 1])
    assert duplicates(texts, labels) == {"rows": 3, "texts_with_several_labels": 1}
