"""Means with confidence intervals, and paired tests."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """A mean with its 95 % confidence interval, mean ± margin; a single value has no margin."""

    mean: float
    margin: float | None

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if self.margin is None else f"{self.mean:.4f} ± {self.margin:.4f}"


def interval(values: Sequence[float]) -> Interval:
    """Student's t interval."""
    from scipy import stats

    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Interval(mean, None)
    return Interval(mean, float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)))


def paired_p(differences: Iterable[float]) -> float:
    """The p-value of paired differences: how likely a mean this far from zero is if their signs are random.

    By the normal approximation: z = sum / sqrt(sum of squares). For right and wrong answers this is McNemar's test
    (1947, https://doi.org/10.1007/BF02295996).
    """
    differences = list(differences)
    squares = math.fsum(each * each for each in differences)
    return math.erfc(abs(math.fsum(differences)) / math.sqrt(2 * squares)) if squares else 1.0
