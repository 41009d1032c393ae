"""Scores of classes and paired tests, against numbers worked by hand and exact probabilities."""

from itertools import product
from math import comb

import numpy as np
import pytest

from headway.lab.statistics import paired_p
from headway.lab.survey import duplicates
from headway.metrics.classification import Predictions, calibration, confusion, precision_recall_f1, report

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
    many = np.tile(differences, 400)  # beyond the limit: close to the exact one all the same
    assert paired_p(many) == pytest.approx(paired_p(many[:2300]), abs=0.02)


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
