"""How well classes are told apart."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from headway.objectives.tally import Tally

MOST_MIXED_UP = 10  # pairs of classes that are named


def accuracy(predicted: Tensor, targets: Tensor) -> Tally:
    """The share of predictions that are right."""
    return Tally((predicted == targets).sum(), targets.numel())


@dataclass(frozen=True)
class Predictions:
    """Of a whole set: the class that was right, the one that was said, and how sure the model was of it."""

    targets: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    key: str = ""  # of the examples: predictions with the same key are of the same ones

    @classmethod
    def of(cls, probabilities: np.ndarray, targets: np.ndarray, key: str = "") -> "Predictions":
        return cls(np.asarray(targets), probabilities.argmax(axis=1), probabilities.max(axis=1), key)

    @property
    def right(self) -> np.ndarray:
        return self.targets == self.predicted


def confusion(found: Predictions, classes: int) -> np.ndarray:
    """(classes, classes): how often class i was taken for class j."""
    counts = np.bincount(found.targets * classes + found.predicted, minlength=classes * classes)
    return counts.reshape(classes, classes)


def precision_recall_f1(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each class, from the confusion counts: TP / (TP + FP), TP / (TP + FN), and 2 TP / (2 TP + FP + FN).

    What would be 0 / 0 is 0, as for a class that is never said.
    """
    hits = np.diag(counts).astype(float)
    said, there = counts.sum(axis=0), counts.sum(axis=1)
    return hits / np.maximum(said, 1), hits / np.maximum(there, 1), 2 * hits / np.maximum(said + there, 1)


@dataclass(frozen=True)
class Bin:
    """Predictions of like confidence: how many, how sure on the mean, how many of them right."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


def calibration(found: Predictions, bins: int = 10) -> tuple[float, list[Bin]]:
    """The expected calibration error, the mean over all predictions of |accuracy - confidence| of their bin
    (Guo et al. 2017, https://arxiv.org/abs/1706.04599), and the bins that are not empty."""
    place = np.minimum((found.confidence * bins).astype(int), bins - 1)
    filled = [
        Bin(
            number / bins,
            (number + 1) / bins,
            int(inside.sum()),
            float(found.confidence[inside].mean()),
            float(found.right[inside].mean()),
        )
        for number in range(bins)
        if (inside := place == number).any()
    ]
    total = max(len(found.targets), 1)
    return sum(each.count * abs(each.accuracy - each.confidence) for each in filled) / total, filled


def report(found: Predictions, labels: list[str]) -> dict[str, Any]:
    """What an accuracy hides: by class, which are mixed up, and how far confidence can be trusted."""
    counts = confusion(found, len(labels))
    precision, recall, f1 = precision_recall_f1(counts)
    error, bins = calibration(found)
    there = counts.sum(axis=1)
    return {
        "f1": float(f1[counts.sum(axis=0) + there > 0].mean()),  # each class that is there or was said counts the same
        "calibration_error": error,
        "classes": [
            {
                "label": label,
                "precision": float(precision[place]),
                "recall": float(recall[place]),
                "f1": float(f1[place]),
                "examples": int(there[place]),
            }
            for place, label in enumerate(labels)
        ],
        "confusion": counts.tolist(),
        "mixed_up": mixed_up(counts, labels),
        "calibration": [asdict(each) for each in bins],
    }


def mixed_up(counts: np.ndarray, labels: list[str]) -> list[dict[str, Any]]:
    """The pairs of classes that are taken for each other most often."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_MIXED_UP]
    pairs = [np.unravel_index(place, wrong.shape) for place in order]
    return [
        {"true": labels[true], "said": labels[said], "examples": int(wrong[true, said])}
        for true, said in pairs
        if wrong[true, said]
    ]
