"""How well a reward model ranks: over all pairs of answers to the same prompt."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headway.metrics.classification import Bin, Predictions, calibration

BINS = 24  # of the histogram of rewards


@dataclass(frozen=True)
class AnswerPairs:
    """Pairs of a better and a worse answer; ties are left out."""

    better: np.ndarray  # (P,): reward of the better answer
    worse: np.ndarray  # (P,): reward of the worse one
    extra_length: np.ndarray  # (P,): how much longer the better answer is
    rank_distance: np.ndarray  # (P,): difference of their ranks

    @classmethod
    def of(cls, rewards: np.ndarray, lengths: np.ndarray, ranks: np.ndarray, owners: np.ndarray) -> "AnswerPairs":
        """Of answers (n,), grouped by prompt."""
        better, worse = pair_indices(ranks, owners)
        return cls(rewards[better], rewards[worse], lengths[better] - lengths[worse], ranks[worse] - ranks[better])

    @property
    def margins(self) -> np.ndarray:
        """(P,): reward of the better answer minus that of the worse one."""
        return self.better - self.worse

    @property
    def sides(self) -> dict[str, np.ndarray]:
        return {"better": self.better, "worse": self.worse}

    @property
    def accuracy(self) -> float:
        return share_right(self.margins)

    def by_distance(self) -> dict[int, float]:
        """Accuracy by difference of ranks."""
        return {
            int(each): share_right(self.margins[self.rank_distance == each]) for each in np.unique(self.rank_distance)
        }

    def by_length(self) -> float:
        """Accuracy of always choosing the longer answer, or always the shorter one."""
        longer = share_right(self.extra_length)
        return max(longer, 1 - longer)

    def calibration(self) -> tuple[float, list[Bin]]:
        """Of the probability sigmoid(margin) that the answer with the higher reward is the better one. Of equal rewards
        every second counts as right, as a guess would be."""
        confidence = 1 / (1 + np.exp(-np.abs(self.margins)))
        right, ties = (self.margins > 0).astype(int), np.flatnonzero(self.margins == 0)
        right[ties[::2]] = 1
        return calibration(Predictions(np.ones_like(right), right, confidence))

    def scores(self) -> dict[str, float]:
        apart = {f"accuracy_{distance}_apart": share for distance, share in self.by_distance().items()}
        return {"calibration_error": self.calibration()[0], "length_alone": self.by_length(), **apart}


def share_right(differences: np.ndarray) -> float:
    """The share of positive differences; a tie counts half."""
    return float(np.mean(0.5 * (1 + np.sign(differences)))) if len(differences) else float("nan")


def pair_indices(ranks: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the better and of the worse answer of each pair."""
    most = int(np.bincount(owners).max(initial=1))
    first = [np.flatnonzero(owners[:-offset] == owners[offset:]) for offset in range(1, most)]
    second = [indices + offset for offset, indices in enumerate(first, start=1)]
    one, other = (np.concatenate([np.empty(0, int), *each]) for each in (first, second))
    better, worse = np.where(ranks[one] < ranks[other], (one, other), (other, one))
    differ = ranks[better] != ranks[worse]
    return better[differ], worse[differ]


def report(pairs: AnswerPairs) -> dict[str, Any]:
    """Histograms of the rewards of better and worse answers, and the calibration curve."""
    borders = np.histogram_bin_edges(np.concatenate([pairs.better, pairs.worse]), BINS)
    counted = {name: np.histogram(rewards, borders)[0] for name, rewards in pairs.sides.items()}
    return {
        "rewards": {"borders": borders.tolist(), **{name: counts.tolist() for name, counts in counted.items()}},
        "calibration": [asdict(each) for each in pairs.calibration()[1]],
    }
