"""The baselines of classifiers: the most frequent label, and logistic regression on n-grams of words or symbols."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from headway.baselines.documents import Documents, Words
from headway.baselines.labels import MOST_WEIGHTED, PLAIN, WEIGHTED, Fitted, LabelBaselines, Labelled
from headway.data.files import Progress, silent
from headway.data.sequences import LabelledSequences
from headway.metrics.classification import LabelMetric, Predictions, measured
from headway.metrics.items import Items
from headway.tasks.baselines import Baseline, HasBaselines, Measured, Scored, hash_of

ACCURACY = "accuracy"
START_UP, PER_MILLION = 1.0, 3.5  # seconds: to load scikit-learn, and for a million tokens
PER_CLASS = 0.3  # of these for each class beyond two


class ComparesLabels(HasBaselines):
    compared_by = ACCURACY
    labels: list[str]

    @property
    @abstractmethod
    def label_metrics(self) -> Mapping[str, LabelMetric]:
        """Beside accuracy."""

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Any: ...

    @abstractmethod
    def predictions_of(self, model: Any, data: LabelledSequences) -> Predictions: ...

    def documents(self, data: LabelledSequences, words: Words, is_training: bool = False) -> Documents:
        """What the baselines read: the tokens, before any are cut off; or words, which are learned in training."""
        whole = np.repeat(data.starts - np.cumsum(data.sizes) + data.sizes, data.sizes)
        return Documents(data.tokens[whole + np.arange(len(whole))].astype(np.int64), data.sizes)

    def label_baselines(self) -> tuple[LabelBaselines, Callable[[LabelledSequences], Documents]]:
        """Untrained, with their training data; and how they read other data."""
        splits, words = self.splits(), Words()
        train = Labelled(self.documents(splits.train, words, is_training=True), splits.train.labels)
        held_out = [Labelled(self.documents(each, words), each.labels) for each in splits.validation.values()]
        documents = Documents(
            np.concatenate([each.documents.words for each in held_out]),
            np.concatenate([each.documents.sizes for each in held_out]),
        )
        validation = Labelled(documents, np.concatenate([each.labels for each in held_out]))
        return LabelBaselines(train, validation, len(self.labels)), lambda data: self.documents(data, words)

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        shared: dict[str, Any] = {}

        def prepare() -> None:
            own, read = self.label_baselines()
            shared.update(own=own, counts=own.counts, tests={name: read(data) for name, data in tests.items()})

        def measure(kind: Callable[[LabelBaselines], Fitted]) -> Measured:
            fitted = kind(shared["own"])
            sets = {name: self.scored(fitted, shared["tests"][name], data) for name, data in tests.items()}
            return Measured(sets, fitted.parameters, fitted.about)

        kinds: dict[str, Callable[[LabelBaselines], Fitted]] = {
            f"TF-IDF 1-{PLAIN}-grams": LabelBaselines.plain,
        }
        if len(np.unique(self.splits().train.labels)) <= MOST_WEIGHTED:
            kinds[f"naive-Bayes 1-{WEIGHTED}-grams"] = LabelBaselines.weighted
        fitted = [Baseline(name, partial(measure, kind), prepare) for name, kind in kinds.items()]
        return [Baseline("most frequent label", partial(self.most_frequent, tests)), *fitted]

    def most_frequent(self, tests: Mapping[str, Any]) -> Measured:
        label = int(np.bincount(self.splits().train.labels).argmax())
        return Measured({name: self.score(np.full(len(data), label), data) for name, data in tests.items()}, 1)

    def scored(self, fitted: Fitted, documents: Documents, data: LabelledSequences) -> Scored:
        return self.score(fitted.probabilities(documents).argmax(axis=1), data)

    def score(self, predicted: np.ndarray, data: LabelledSequences) -> Scored:
        names = ([self.labels[index] for index in each] for each in (data.labels, predicted))
        items = Items.of_values(ACCURACY, predicted == data.labels)
        return Scored(items, measured(self.label_metrics, *names))

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        splits = self.splits()
        sets = {"train": splits.train, **splits.validation, **{f"test {name}": data for name, data in tests.items()}}
        parts = [each for name, data in sets.items() for each in (name, data.key, data.labels)]
        return hash_of(*self.labels, *sorted(self.label_metrics), *parts)

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        splits = self.splits()
        size = sum(int(data.sizes.sum()) for data in (splits.train, *splits.validation.values(), *tests.values()))
        return START_UP + PER_MILLION * size / 1e6 * (1 + PER_CLASS * max(len(self.labels) - 2, 0))

    def items_of(self, model: Any, data: LabelledSequences) -> Items:
        return Items.of_values(ACCURACY, self.predictions_of(model, data).right)
