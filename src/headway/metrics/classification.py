"""Classification metrics: accuracy, confusion, precision, recall, F1, calibration."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from headway.config.errors import Problem
from headway.objectives.tally import Tally

MOST_CONFUSED = 10  # pairs of classes in a report


def accuracy(predicted: Tensor, targets: Tensor) -> Tally:
    """The share of correct predictions."""
    return Tally((predicted == targets).sum(), targets.numel())


@dataclass(frozen=True)
class Predictions:
    """The predictions for a whole set: true class, predicted class, and the probability of the latter."""

    targets: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    key: str = ""  # identifies the examples: predictions with equal keys are comparable

    @classmethod
    def of(cls, probabilities: np.ndarray, targets: np.ndarray, key: str = "") -> "Predictions":
        return cls(np.asarray(targets), probabilities.argmax(axis=1), probabilities.max(axis=1), key)

    @property
    def right(self) -> np.ndarray:
        return self.targets == self.predicted


def confusion(predictions: Predictions, classes: int) -> np.ndarray:
    """(classes, classes): how often class i was predicted as class j."""
    counts = np.bincount(predictions.targets * classes + predictions.predicted, minlength=classes * classes)
    return counts.reshape(classes, classes)


def precision_recall_f1(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each class, from the confusion counts: TP / (TP + FP), TP / (TP + FN), and 2 TP / (2 TP + FP + FN).

    0 / 0, as for a class that is never predicted, is 0.
    """
    hits = np.diag(counts).astype(float)
    predicted, actual = counts.sum(axis=0), counts.sum(axis=1)
    return hits / np.maximum(predicted, 1), hits / np.maximum(actual, 1), 2 * hits / np.maximum(predicted + actual, 1)


@dataclass(frozen=True)
class Bin:
    """Predictions of similar confidence: their number, mean confidence and accuracy."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


def calibration(predictions: Predictions, bins: int = 10) -> tuple[float, list[Bin]]:
    """The expected calibration error, the mean over all predictions of |accuracy - confidence| of their bin
    (Guo et al. 2017, https://arxiv.org/abs/1706.04599), and the non-empty bins."""
    numbers = np.minimum((predictions.confidence * bins).astype(int), bins - 1)
    filled = [
        Bin(
            number / bins,
            (number + 1) / bins,
            int(inside.sum()),
            float(predictions.confidence[inside].mean()),
            float(predictions.right[inside].mean()),
        )
        for number in range(bins)
        if (inside := numbers == number).any()
    ]
    total = max(len(predictions.targets), 1)
    return sum(each.count * abs(each.accuracy - each.confidence) for each in filled) / total, filled


def report(predictions: Predictions, labels: list[str]) -> dict[str, Any]:
    """What accuracy hides: scores by class, confusions, and calibration."""
    counts = confusion(predictions, len(labels))
    precision, recall, f1 = precision_recall_f1(counts)
    error, bins = calibration(predictions)
    actual = counts.sum(axis=1)
    return {
        "f1": float(f1[counts.sum(axis=0) + actual > 0].mean()),  # macro F1, of classes that occur or were predicted
        "calibration_error": error,
        "classes": [
            {
                "label": label,
                "precision": float(precision[index]),
                "recall": float(recall[index]),
                "f1": float(f1[index]),
                "examples": int(actual[index]),
            }
            for index, label in enumerate(labels)
        ],
        "confusion": counts.tolist(),
        "mixed_up": most_confused(counts, labels),
        "calibration": [asdict(each) for each in bins],
    }


def most_confused(counts: np.ndarray, labels: list[str]) -> list[dict[str, Any]]:
    """The most frequent pairs of a true class and a wrongly predicted one."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CONFUSED]
    pairs = [np.unravel_index(index, wrong.shape) for index in order]
    return [
        {"true": labels[true], "said": labels[predicted], "examples": int(wrong[true, predicted])}
        for true, predicted in pairs
        if wrong[true, predicted]
    ]


# --- additional metrics, which a recipe names in train.metrics; higher is better

LabelMetric = Callable[[Sequence[Any], Sequence[Any]], float]  # (true labels, predicted labels) -> value


def macro_f1(targets: Sequence[str], predicted: Sequence[str]) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(targets, predicted, average="macro", zero_division=0))


def matthews(targets: Sequence[str], predicted: Sequence[str]) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(targets, predicted))


def balanced_accuracy(targets: Sequence[str], predicted: Sequence[str]) -> float:
    """The mean over classes of the accuracy within a class: a rare one counts as much as a frequent one."""
    right = Counter(true for true, said in zip(targets, predicted, strict=True) if true == said)
    return sum(right[label] / count for label, count in Counter(targets).items()) / len(set(targets))


METRICS: dict[str, LabelMetric] = {"f1": macro_f1, "mcc": matthews, "balanced_accuracy": balanced_accuracy}


def measured(metrics: Mapping[str, LabelMetric], targets: Sequence[Any], predicted: Sequence[Any]) -> dict[str, float]:
    """The values of metrics, which may be functions of a user."""
    values = {}
    for name, metric in metrics.items():
        try:
            value = float(metric(targets, predicted))
        except Exception as error:
            raise Problem(f"the metric {name} failed: {type(error).__name__}: {error}") from error
        if not math.isfinite(value):
            raise Problem(f"the metric {name} is {value}: it must be a finite number")
        values[name] = value
    return values
