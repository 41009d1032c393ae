"""How well a reward model ranks: over all pairs of answers to a prompt, with what they should be."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headway.metrics.classification import Bin, Predictions, calibration

BINS = 24  # of the histogram of rewards


@dataclass(frozen=True)
class AnswerPairs:
    """Of pairs, the better answer first; ties are left out."""

    better: np.ndarray  # (P,): its reward,
    worse: np.ndarray  # (P,): and the other's
    longer: np.ndarray  # (P,): how much longer it is
    distance: np.ndarray  # (P,): how many ranks lie between the two

    @classmethod
    def of(cls, rewards: np.ndarray, lengths: np.ndarray, ranks: np.ndarray, owners: np.ndarray) -> "AnswerPairs":
        """Of answers (n,), those to one prompt next to each other."""
        better, worse = pairs(ranks, owners)
        return cls(rewards[better], rewards[worse], lengths[better] - lengths[worse], ranks[worse] - ranks[better])

    @property
    def apart(self) -> np.ndarray:
        """(P,): how much higher the reward of the better one is."""
        return self.better - self.worse

    @property
    def sides(self) -> dict[str, np.ndarray]:
        return {"better": self.better, "worse": self.worse}

    @property
    def accuracy(self) -> float:
        return share_right(self.apart)

    def by_distance(self) -> dict[int, float]:
        """How often the better one is found, by how many ranks better it is."""
        return {int(far): share_right(self.apart[self.distance == far]) for far in np.unique(self.distance)}

    def by_length(self) -> float:
        """How often one would be right who takes the longer answer, or always the shorter one."""
        longer = share_right(self.longer)
        return max(longer, 1 - longer)

    def calibration(self) -> tuple[float, list[Bin]]:
        """A pair's probability is sigmoid(difference): does it come true as often?"""
        sure = 1 / (1 + np.exp(-np.abs(self.apart)))
        right = (self.apart > 0).astype(int)
        return calibration(Predictions(np.ones_like(right), right, sure))

    def scores(self) -> dict[str, float]:
        apart = {f"accuracy_{far}_apart": found for far, found in self.by_distance().items()}
        return {"calibration_error": self.calibration()[0], "length_alone": self.by_length(), **apart}


def share_right(differences: np.ndarray) -> float:
    """Equals are right half of the time."""
    return float(np.mean(0.5 * (1 + np.sign(differences)))) if len(differences) else float("nan")


def pairs(ranks: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of the better and of the worse answer of each pair."""
    most = int(np.bincount(owners).max(initial=1))
    first = [np.flatnonzero(owners[:-far] == owners[far:]) for far in range(1, most)]
    second = [at + far for far, at in enumerate(first, start=1)]
    one, other = (np.concatenate([np.empty(0, int), *each]) for each in (first, second))
    better, worse = np.where(ranks[one] < ranks[other], (one, other), (other, one))
    differ = ranks[better] != ranks[worse]
    return better[differ], worse[differ]


def report(found: AnswerPairs) -> dict[str, Any]:
    """How rewards are distributed over better and worse answers, and how far a difference can be trusted."""
    borders = np.histogram_bin_edges(np.concatenate([found.better, found.worse]), BINS)
    counted = {name: np.histogram(rewards, borders)[0] for name, rewards in found.sides.items()}
    return {
        "rewards": {"borders": borders.tolist(), **{name: counts.tolist() for name, counts in counted.items()}},
        "calibration": [asdict(each) for each in found.calibration()[1]],
    }
