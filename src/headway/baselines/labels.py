"""Baselines for labels: the most frequent one, and logistic regression on n-grams.

``weighted`` multiplies each n-gram by the log-ratio of its frequency in a class and outside of it, as naive Bayes
would, and fits a regression for each class on top (Wang & Manning 2012, https://aclanthology.org/P12-2018).
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headway.baselines.documents import Documents
from headway.baselines.ngrams import Matrix, Ngrams

PLAIN, WEIGHTED = 2, 3  # words of the longest n-grams
PLAIN_C, WEIGHTED_CS = 10.0, (10.0, 30.0)  # inverse strengths of the penalty; of several, validation data choose
MOST_WEIGHTED = 20  # classes of which each has a regression of its own
MOST_WEIGHTS = 20_000_000  # of a regression with many classes: only the most frequent n-grams are used beyond that
MOST_STEPS = 300

Probabilities = Callable[[Matrix], np.ndarray]  # of tf-idf or counts (N, columns): (N, classes)


@dataclass(frozen=True)
class Labelled:
    """Documents with the numbers of their labels."""

    documents: Documents
    labels: np.ndarray


@dataclass(frozen=True)
class Fitted:
    """A trained baseline, and what it says of documents."""

    probabilities: Callable[[Documents], np.ndarray]  # (N, classes)
    parameters: int
    about: str = ""  # what was chosen on validation data


def regression(matrix: Matrix, labels: np.ndarray, penalty: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits do not matter
        return LogisticRegression(C=penalty, max_iter=MOST_STEPS).fit(matrix, labels)


class LabelBaselines:
    """For ``classes`` labels, of which ``train`` may lack some. The n-grams are counted once for all of them."""

    def __init__(self, train: Labelled, validation: Labelled, classes: int):
        self.train, self.validation, self.classes = train, validation, classes

    @cached_property
    def ngrams(self) -> Ngrams:
        often = Ngrams(self.train.documents, WEIGHTED)
        return often if len(often) else Ngrams(self.train.documents, WEIGHTED, min_df=1)

    @property
    def has_nothing_to_learn(self) -> bool:
        """Where there are no words, or all labels are the same."""
        return not len(self.ngrams) or len(np.unique(self.train.labels)) < 2

    def by_frequency(self) -> Fitted:
        shares = np.bincount(self.train.labels, minlength=self.classes) / len(self.train.labels)
        return Fitted(lambda documents: np.tile(shares, (len(documents), 1)), 1)

    @cached_property
    def counts(self) -> Matrix:
        return self.ngrams.counts(self.train.documents)

    def plain(self) -> Fitted:
        """TF-IDF of n-grams, logistic regression."""
        if self.has_nothing_to_learn:
            return self.by_frequency()
        matrix = self.ngrams.tfidf(self.counts, PLAIN)
        kept = self.kept(matrix.shape[1])
        fitted = regression(matrix[:, kept], self.train.labels, PLAIN_C)

        def probabilities(documents: Documents) -> np.ndarray:
            own = self.ngrams.tfidf(self.ngrams.counts(documents), PLAIN)[:, kept]
            return spread(fitted.predict_proba(own), fitted.classes_, self.classes)

        return Fitted(probabilities, int(fitted.coef_.size + fitted.intercept_.size))

    def kept(self, columns: int) -> Any:
        """The columns that are used."""
        most = MOST_WEIGHTS // len(np.unique(self.train.labels))
        if columns <= most:
            return slice(None)
        return np.sort(np.argsort(-self.ngrams.df[:columns], kind="stable")[:most])

    def weighted(self) -> Fitted:
        """The same, weighted by naive-Bayes log-ratios; the penalty is chosen on the validation data."""
        if self.has_nothing_to_learn:
            return self.by_frequency()
        matrix, own = self.ngrams.tfidf(self.counts, WEIGHTED), self.validation
        held_out = self.ngrams.tfidf(self.ngrams.counts(own.documents), WEIGHTED)
        tried = [(penalty, *weighted(matrix, self.train.labels, self.classes, penalty)) for penalty in WEIGHTED_CS]
        right = [(probabilities(held_out).argmax(axis=1) == own.labels).mean() for _, probabilities, _ in tried]
        penalty, chosen, parameters = tried[int(np.argmax(right))]

        def probabilities(documents: Documents) -> np.ndarray:
            return chosen(self.ngrams.tfidf(self.ngrams.counts(documents), WEIGHTED))

        return Fitted(probabilities, parameters, f"C={penalty:g}")


def weighted(matrix: Matrix, labels: np.ndarray, classes: int, penalty: float) -> tuple[Probabilities, int]:
    """Regressions on n-grams weighted by naive Bayes: one for each class, or one for two of them."""
    known = np.unique(labels)
    of_each = known[1:] if len(known) == 2 else known
    fitted = []
    for each in of_each:
        ratios = log_ratios(matrix, labels == each)
        fitted.append((ratios, regression(matrix.multiply(ratios).tocsr(), labels == each, penalty)))
    folded = np.stack([ratios * each.coef_[0] for ratios, each in fitted], axis=1)
    biases = np.array([each.intercept_[0] for _, each in fitted])

    def probabilities(rows: Matrix) -> np.ndarray:
        yes = 1 / (1 + np.exp(-(rows @ folded + biases)))
        own = np.concatenate([1 - yes, yes], axis=1) if len(known) == 2 else yes / yes.sum(axis=1, keepdims=True)
        return spread(own, known, classes)

    return probabilities, int(folded.size + biases.size)


def log_ratios(matrix: Matrix, is_in: np.ndarray) -> np.ndarray:
    """(columns,): log of the share that each n-gram has in the documents of a class, and in the others; each document
    counts once, and one more is added to both."""
    present = (matrix != 0).astype(np.float64)
    inside, outside = (1 + np.asarray(present[rows].sum(axis=0)).ravel() for rows in (is_in, ~is_in))
    return np.log(inside / inside.sum()) - np.log(outside / outside.sum())


def spread(probabilities: np.ndarray, known: np.ndarray, classes: int) -> np.ndarray:
    """Of the known classes among all."""
    whole = np.zeros((len(probabilities), classes))
    whole[:, known] = probabilities
    return whole


def folds(rows: int, count: int) -> Iterator[np.ndarray]:
    """Masks of the rows that are held out in turn, drawn at random."""
    part = np.random.default_rng(0).permutation(rows) % count
    return (part == number for number in range(count))
