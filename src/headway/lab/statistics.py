"""Means with confidence intervals, and paired tests."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

EXACT = 2000


class Interval(NamedTuple):
    """A mean with its 95 % confidence interval, mean ± margin; a single value has no margin."""

    mean: float
    margin: float | None

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if self.margin is None else f"{self.mean:.4f} ± {self.margin:.4f}"


def interval(values: Sequence[float] | np.ndarray) -> Interval:
    """Student's t interval."""
    from scipy import stats

    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Interval(mean, None)
    return Interval(mean, float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)))


def paired_p(differences: Sequence[float] | np.ndarray) -> float:
    """The p-value of paired differences: how likely a sum this far from zero is if every sign is random.

    For right and wrong answers of two models this is McNemar's exact test (1947, https://doi.org/10.1007/BF02295996);
    differences of means over seeds have several sizes, and the distribution of their sum is computed. Beyond ``EXACT``
    differences that are not zero, the normal approximation is as good, with a correction for continuity.
    """
    from scipy import stats

    sizes = np.abs([each for each in differences if each])
    if not len(sizes):
        return 1.0
    unit = sizes.min()
    steps = np.rint(sizes / unit).astype(int)  # differences of means over n seeds are multiples of 1 / n
    total = abs(int(np.rint(math.fsum(differences) / unit)))
    if np.abs(steps * unit - sizes).max() > 1e-9 or len(steps) > EXACT:
        spread = math.sqrt(math.fsum(sizes**2))
        return float(min(2 * stats.norm.sf((abs(math.fsum(differences)) - unit) / spread), 1.0))
    if (steps == 1).all():
        return float(stats.binomtest((len(steps) + total) // 2, len(steps)).pvalue)
    chances = np.ones(1)  # of each possible sum, from -sum(steps) to sum(steps)
    for step in steps:
        longer = np.zeros(len(chances) + 2 * step)
        longer[: len(chances)] += 0.5 * chances
        longer[2 * step :] += 0.5 * chances
        chances = longer
    sums = np.arange(len(chances)) - steps.sum()
    return float(min(chances[np.abs(sums) >= total].sum(), 1.0))
