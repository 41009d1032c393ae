"""The baselines of taggers: the most frequent tag of each word, and logistic regression on its neighbours."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from headway.baselines.words import Neighbours, TaggedText, most_frequent_tags
from headway.data.files import Progress, silent
from headway.data.tagged_sequences import TaggedSequences
from headway.metrics.items import Items
from headway.metrics.spans import TagSet, hits
from headway.tasks.baselines import Baseline, HasBaselines, Measured, Scored, hash_of

F1 = "f1"
START_UP, PER_MILLION = 1.0, 7.0  # seconds: to load scikit-learn, and for a million words and a tag


class ComparesTags(HasBaselines):
    compared_by = F1
    kinds: TagSet

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Any: ...

    @abstractmethod
    def predicted(self, model: Any, data: TaggedSequences) -> np.ndarray:
        """(words,): the tags of all words, row by row."""

    def text_of(self, data: TaggedSequences) -> TaggedText:
        own = data.own_words
        return TaggedText([data.texts[index] for index in own.tolist()], data.tags[own], data.begins)

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        def measure(fit: Callable[[TaggedText], tuple[Callable[[TaggedText], np.ndarray], int]]) -> Measured:
            predict, parameters = fit(self.text_of(self.splits().train))
            return Measured(
                {name: self.score(predict(self.text_of(data)), data) for name, data in tests.items()}, parameters
            )

        return [
            Baseline("most frequent tag of each word", partial(measure, most_frequent_tags)),
            Baseline("logistic regression on neighbours", partial(measure, lambda text: Neighbours(text).fit())),
        ]

    def score(self, predicted: np.ndarray, data: TaggedSequences) -> Scored:
        right = predicted == data.tags[data.own_words]
        return Scored(self.items(predicted, data), {"accuracy": float(right.mean())})

    def items(self, predicted: np.ndarray, data: TaggedSequences) -> Items:
        """Of each row: twice the spans that are right, over those that were predicted and those that there are."""
        rows, begins = np.repeat(np.arange(len(data)), data.word_counts), data.begins
        own, true = (self.kinds.spans(tags, begins) for tags in (predicted, data.tags[data.own_words]))
        right = np.bincount(rows[own.starts[hits(own, true)]], minlength=len(data))
        every = np.bincount(rows[np.concatenate([own.starts, true.starts])], minlength=len(data))
        return Items(F1, np.stack([2.0 * right, every], axis=1))

    def items_of(self, model: Any, data: TaggedSequences) -> Items:
        return self.items(self.predicted(model, data), data)

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        sets = {"train": self.splits().train, **{f"test {name}": data for name, data in tests.items()}}
        texts = {name: self.text_of(data) for name, data in sets.items()}
        parts = [each for name, own in texts.items() for each in (name, "\n".join(own.words), own.tags, own.begins)]
        return hash_of(self.kinds.scheme, *self.kinds.names, *parts)

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        words = sum(int(data.word_counts.sum()) for data in (self.splits().train, *tests.values()))
        return START_UP + PER_MILLION * words / 1e6 * len(self.kinds.names)
