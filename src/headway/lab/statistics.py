"""Means over seeds, and how sure one can be of them."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """A mean, and how far the true one may lie from it at 95 % confidence; None if one value cannot tell."""

    mean: float
    margin: float | None

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if self.margin is None else f"{self.mean:.4f} ± {self.margin:.4f}"


def interval(values: Sequence[float]) -> Interval:
    """Student's t interval."""
    count, mean = len(values), math.fsum(values) / len(values)
    if count < 2:
        return Interval(mean, None)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    return Interval(mean, student_quantile(count - 1) * deviation / math.sqrt(count))


def student_quantile(freedom: int, within: float = 0.95) -> float:
    """How large t must be for a Student variable to lie between -t and t with this probability; by bisection."""
    low, high = 0.0, 1e3
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if student_within(middle, freedom) < within else (low, middle)
    return low


def student_within(t: float, freedom: int) -> float:
    """P(-t < T < t), by the finite sums for whole degrees of freedom (Abramowitz & Stegun 26.7.3, 26.7.4)."""
    angle, odd = math.atan(t / math.sqrt(freedom)), freedom % 2
    cosine = math.cos(angle)
    term, total = cosine if odd else 1.0, 0.0
    for factor in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (factor - 1) / factor
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def paired_p(differences: Iterable[float]) -> float:
    """How likely a mean as far from zero as that of these differences is, if their signs are a matter of chance.

    By the normal distribution, which many differences come close to: z = sum / sqrt(sum of squares). For right and
    wrong answers this is McNemar's test (1947, https://doi.org/10.1007/BF02295996).
    """
    differences = list(differences)
    squares = math.fsum(each * each for each in differences)
    return math.erfc(abs(math.fsum(differences)) / math.sqrt(2 * squares)) if squares else 1.0
