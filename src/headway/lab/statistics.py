"""Means with confidence intervals, and paired tests."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.metrics import gain
from headway.metrics.items import Items

ROUNDING = 1e-9
EXACT = 2000  # differences whose distribution is computed
RESAMPLES, RESAMPLES_AT_ONCE = 2000, 200
FEWEST_ITEMS = 6  # with fewer, no difference can be beyond chance
SEEDS = 100  # differences of means over up to this many seeds are recognised as multiples of a unit


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


def signed(difference: Interval) -> str:
    """A difference: ``+0.0210 ± 0.0034``."""
    return f"{difference.mean:+.4f}" + ("" if difference.margin is None else f" ± {difference.margin:.4f}")


class Difference(NamedTuple):
    """A mean difference with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


def paired_difference(differences: np.ndarray) -> Difference:
    """Of right and wrong answers, by the adjusted Wald interval: as if one more example spoke for each side (Bonett &
    Price 2012, https://doi.org/10.3102/1076998611411915). Without these, the interval is too narrow when few answers
    differ, and excludes zero where the exact test finds nothing."""
    from scipy import stats

    adjusted = np.append(differences, [1.0, -1.0])
    middle, margin = adjusted.mean(), stats.norm.ppf(0.975) * adjusted.std() / math.sqrt(len(adjusted))
    return Difference(float(differences.mean()), float(middle - margin), float(middle + margin))


def paired_p(differences: Sequence[float] | np.ndarray) -> float:
    """The p-value of paired differences: how likely a sum this far from zero is if every sign is random.

    For right and wrong answers of two models this is McNemar's exact test (1947, https://doi.org/10.1007/BF02295996);
    differences of means over seeds have several sizes, and the distribution of their sum is computed. Beyond ``EXACT``
    of them, the normal approximation is as good, with a correction for continuity.
    """
    from scipy import stats

    sizes = np.abs([each for each in differences if each])
    if not len(sizes):
        return 1.0
    unit = unit_of(sizes)
    steps = np.rint(sizes / unit).astype(int)
    total = abs(int(np.rint(math.fsum(differences) / unit)))
    if (steps == steps[0]).all():
        return float(stats.binomtest((len(steps) + total // int(steps[0])) // 2, len(steps)).pvalue)
    if len(steps) > EXACT or np.abs(steps * unit - sizes).max() > ROUNDING:
        spread = math.sqrt(math.fsum(sizes**2))
        return float(min(2 * stats.norm.sf((abs(math.fsum(differences)) - unit) / spread), 1.0))
    chances = np.ones(1)  # of each possible sum, from -sum(steps) to sum(steps)
    for step in steps:
        longer = np.zeros(len(chances) + 2 * step)
        longer[: len(chances)] += 0.5 * chances
        longer[2 * step :] += 0.5 * chances
        chances = longer
    sums = np.arange(len(chances)) - steps.sum()
    return float(min(chances[np.abs(sums) >= total].sum(), 1.0))


def unit_of(sizes: np.ndarray) -> float:
    """The largest number that all sizes are multiples of: differences of means over n seeds are multiples of 1 / n. If
    there is none, the smallest size."""
    least = float(sizes.min())
    units = (least / parts for parts in range(1, SEEDS + 1))
    return next((unit for unit in units if np.abs(np.rint(sizes / unit) * unit - sizes).max() < ROUNDING), least)


class Span(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def span_of(models: Sequence[Items]) -> Span | None:
    """How far the mean score of models is that on more items like these: for right and wrong answers by Wilson (1927,
    https://doi.org/10.1080/01621459.1927.10502953), and else by resampling; None: there are too few items."""
    from scipy import stats

    size = min(map(len, models))
    values = [each.values for each in models]
    if all(each is not None for each in values):
        share, z = float(np.mean([each.mean() for each in values if each is not None])), float(stats.norm.ppf(0.975))
        middle = (share + z * z / (2 * size)) / (1 + z * z / size)
        margin = z * math.sqrt(share * (1 - share) / size + z * z / (4 * size * size)) / (1 + z * z / size)
        return Span(middle - margin, middle + margin)
    if size < FEWEST_ITEMS:
        return None
    drawn = np.mean([resampled_scores(each, np.random.default_rng(0)) for each in models], axis=0)
    return Span(*np.quantile(drawn, [0.025, 0.975]).tolist())


class Paired(NamedTuple):
    """How much better one model is than another on the same items, and the p-value of a paired test."""

    difference: Difference
    p: float | None  # None: there are too few items


def paired(pairs: Sequence[tuple[Items, Items]]) -> Paired:
    """Of two models on the same test sets; the scores of several sets have equal weights.

    Right and wrong answers have an exact test, and all of them are taken together; other scores are resampled.
    """
    by_set = [differences(one, other) for one, other in pairs]
    known = [own for own in by_set if own is not None]
    if len(known) == len(by_set):
        together = np.concatenate(known)
        return Paired(paired_difference(together), paired_p(together))
    random = np.random.default_rng(0)
    drawn = np.mean([resampled(one, other, random) for one, other in pairs], axis=0)
    middle = float(np.mean([gain(one.metric, one.score, other.score) for one, other in pairs]))
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    p = min(2 * (min((drawn <= 0).sum(), (drawn >= 0).sum()) + 1) / (len(drawn) + 1), 1.0)
    has_items = min(len(one) for one, _ in pairs) >= FEWEST_ITEMS
    return Paired(Difference(middle, low, high), float(p) if has_items else None)


def differences(one: Items, other: Items) -> np.ndarray | None:
    """(N,): of right and wrong answers; None: they are something else."""
    values, others = one.values, other.values
    return None if values is None or others is None else values - others


def resampled_scores(items: Items, random: np.random.Generator) -> np.ndarray:
    """(RESAMPLES,): of as many items, drawn with replacement."""
    scores = []
    for _ in range(0, RESAMPLES, RESAMPLES_AT_ONCE):
        counts = random.multinomial(len(items), np.full(len(items), 1 / len(items)), RESAMPLES_AT_ONCE)
        scores.append(items.score_of(counts.astype(np.float64) @ items.sums))
    return np.concatenate(scores)


def resampled(one: Items, other: Items, random: np.random.Generator) -> np.ndarray:
    """(RESAMPLES,): the difference of the scores on the same drawn items, in favour of the first."""
    seed = int(random.integers(1 << 32))  # the same items for both
    scores = [resampled_scores(each, np.random.default_rng(seed)) for each in (one, other)]
    return scores[0] - scores[1] if gain(one.metric, 1.0, 0.0) > 0 else scores[1] - scores[0]
