"""What a score is made of: a few sums for each item of a test set, so that two models can be compared on the same
items.

An accuracy is the mean of right and wrong answers, bits per byte are bits over bytes, and BLEU comes from the counts
of n-grams of each sentence. Scores whose items are numbers between 0 and 1 have an exact paired test; others are
compared by resampling the items (Koehn 2004, https://aclanthology.org/W04-3250).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def mean(totals: np.ndarray) -> np.ndarray:
    return totals[..., 0] / np.maximum(totals[..., 1], 1e-30)


def bleu(totals: np.ndarray) -> np.ndarray:
    """From (..., 10): the matching and all n-grams of four orders, and the lengths of hypotheses and references;
    smoothed as sacrebleu does, for scores of many resamples at once."""
    matches, counts, (own, other) = totals[..., :4], totals[..., 4:8], np.moveaxis(totals[..., 8:], -1, 0)
    zeros = np.cumsum((matches == 0) & (counts > 0), axis=-1)
    precisions = np.where(matches == 0, 1 / 2.0**zeros, matches) / np.maximum(counts, 1)
    has_all = (counts > 0).all(axis=-1) & (matches > 0).any(axis=-1)
    brevity = np.where(own < other, np.exp(1 - other / np.maximum(own, 1)), 1)
    return np.where(has_all, 100 * brevity * np.exp(np.log(precisions).mean(axis=-1)), 0)


SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"bleu": bleu}  # of summed items; others are means


@dataclass(frozen=True)
class Items:
    metric: str
    sums: np.ndarray  # (N, K): of each item; of a mean its total and its count

    @classmethod
    def of_values(cls, metric: str, values: np.ndarray) -> "Items":
        """Each counts once."""
        return cls(metric, np.stack([values.astype(np.float64), np.ones(len(values))], axis=1))

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def score(self) -> float:
        return float(self.score_of(self.sums.sum(axis=0)))

    @property
    def score_of(self) -> Callable[[np.ndarray], np.ndarray]:
        return SCORES.get(self.metric, mean)

    @property
    def values(self) -> np.ndarray | None:
        """(N,): the value of each item, if each counts once and is between 0 and 1."""
        values, counts = self.sums[:, 0], self.sums[:, -1]
        is_share = self.sums.shape[1] == 2 and bool((counts == 1).all() and ((values >= 0) & (values <= 1)).all())
        return values if is_share else None
