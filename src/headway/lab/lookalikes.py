"""Texts that look like another language than their label: naive Bayes over character n-grams, without the text itself.

For each text, the model of a language is made of all other texts with its label that are in the same script, mixed with
all texts in that script (Jelinek-Mercer), so that a large language knows unseen n-grams no better than a small one:

    p(n-gram | language) = (1 - BACKGROUND) count(n-gram, language) / count(language) + BACKGROUND p(n-gram)

Leaving one text out is as quick as leaving none out: its own counts are subtracted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.data.files import Progress, silent

FEATURES = 1 << 16
BACKGROUND = 0.4
LEAST_TEXTS = 10  # with one label in one script, to know it by
TEXTS_AT_ONCE, LABELS_AT_ONCE = 4096, 256  # of which scores, or counts, are in memory


@dataclass(frozen=True)
class Lookalikes:
    """For each text, the other label that is likeliest, and by how much its log-likelihood is above the own one's."""

    labels: np.ndarray  # (N,): -1: there is no other
    margins: np.ndarray  # (N,): NaN: there is no other, or too few texts like this one have its label
    ngrams: np.ndarray  # (N,): the number of n-grams


def lookalikes(
    texts: Sequence[str], labels: np.ndarray, scripts: np.ndarray, progress: Progress = silent
) -> Lookalikes:
    """Labels and scripts (N,) are numbers; only texts in one script are compared."""
    counts = count_ngrams(texts, progress)
    best = np.full(len(texts), -1)
    margins = np.full(len(texts), np.nan)
    for script in np.unique(scripts).tolist():
        rows = np.flatnonzero(scripts == script)
        names, place, sizes = np.unique(labels[rows], return_inverse=True, return_counts=True)
        is_known = sizes >= LEAST_TEXTS
        if is_known.sum() < 2:
            continue
        numbers = np.where(is_known, np.cumsum(is_known) - 1, -1)[place]
        other, scores, own = compare(counts[rows], numbers, int(is_known.sum()))
        best[rows] = names[is_known][other]
        margins[rows] = scores - own
    return Lookalikes(best, margins, np.asarray(counts.sum(axis=1)).ravel())


def count_ngrams(texts: Sequence[str], progress: Progress = silent) -> Any:
    """(N, FEATURES), sparse: of one to three characters, within words; digits are left out."""
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(
        preprocessor=lambda text: re.sub(r"\d+", " ", text.lower()),
        analyzer="char_wb",
        ngram_range=(1, 3),
        n_features=FEATURES,
        alternate_sign=False,
        norm=None,
        dtype=np.float32,
    )
    parts = []
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        parts.append(hashing.transform(texts[first : first + TEXTS_AT_ONCE]))
        progress("comparing languages", min(first + TEXTS_AT_ONCE, len(texts)) / len(texts))
    return sparse.vstack(parts, format="csr")


def compare(counts: Any, labels: np.ndarray, kinds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each text, the likeliest label but its own, and the scores of both; labels of -1 are none."""
    total = np.asarray(counts.sum(axis=0)).ravel()
    counts = counts[:, total > 0]
    background = BACKGROUND * total[total > 0] / total.sum()
    best, scores = np.zeros(len(labels), np.int64), np.full(len(labels), -np.inf)
    own = np.full(len(labels), np.nan)
    for first in range(0, kinds, LABELS_AT_ONCE):
        last = min(first + LABELS_AT_ONCE, kinds)
        rows = np.flatnonzero((labels >= first) & (labels < last))
        of_label = sums_by_label(counts[rows], labels[rows] - first, last - first)
        own[rows] = scores_of_own(counts[rows], labels[rows] - first, of_label, background)
        shares = of_label / of_label.sum(axis=1, keepdims=True)
        top, value = best_others(counts, labels - first, np.log((1 - BACKGROUND) * shares + background))
        is_better = value > scores
        best[is_better], scores[is_better] = top[is_better] + first, value[is_better]
    return best, scores, own


def best_others(counts: Any, labels: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each text, the likeliest of the labels of ``logs`` (labels, features), but its own, and its score."""
    top, value = np.empty(len(labels), np.int64), np.empty(len(labels))
    by_feature = np.ascontiguousarray(logs.T)
    for begin in range(0, len(labels), TEXTS_AT_ONCE):
        chunk = slice(begin, begin + TEXTS_AT_ONCE)
        scores, own = counts[chunk] @ by_feature, labels[chunk]
        rows = np.flatnonzero((own >= 0) & (own < len(logs)))
        scores[rows, own[rows]] = -np.inf
        top[chunk] = scores.argmax(axis=1)
        value[chunk] = scores[np.arange(len(scores)), top[chunk]]
    return top, value


def sums_by_label(counts: Any, labels: np.ndarray, kinds: int) -> np.ndarray:
    """(kinds, features)."""
    from scipy import sparse

    ones = np.ones(len(labels), np.float32)
    chosen = sparse.csr_matrix((ones, (labels, np.arange(len(labels)))), shape=(kinds, len(labels)))
    return (chosen @ counts).toarray()


def scores_of_own(counts: Any, labels: np.ndarray, of_label: np.ndarray, background: np.ndarray) -> np.ndarray:
    """The log-likelihood of each text under the other texts with its label."""
    entries = counts.tocoo()
    label, column, count = labels[entries.row], entries.col, entries.data
    sizes = of_label.sum(axis=1)[labels] - np.asarray(counts.sum(axis=1)).ravel()
    shares = (of_label[label, column] - count) / np.maximum(sizes[entries.row], 1)
    logs = np.log((1 - BACKGROUND) * shares + background[column])
    return np.bincount(entries.row, count * logs, len(labels))
