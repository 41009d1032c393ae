"""Baselines for tags of words: the most frequent tag of each word, and logistic regression on a word's neighbours.

The regression reads which words stand at -2 to +2, and the beginning, the end and the shape of the word itself. It is
fitted by stochastic gradient descent, one class against all others.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

REACH = 2  # words on each side
PENALTY, ROUNDS = 1e-6, 6
UNKNOWN, EDGE = 0, 1
AFFIX = 3  # letters


@dataclass(frozen=True)
class TaggedText:
    """The words of all sentences, their tags, and where sentences begin."""

    words: Sequence[str]
    tags: np.ndarray
    begins: np.ndarray


def most_frequent_tags(train: TaggedText) -> tuple[Callable[[TaggedText], np.ndarray], int]:
    """A function from a text to the tag that each word has most often, and the number of words that it knows. Words
    that are not in the training data get the tag that most words have."""
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for word, tag in zip(train.words, train.tags.tolist(), strict=True):
        counts[word][tag] += 1
    usual = {word: own.most_common(1)[0][0] for word, own in counts.items()}
    most = int(np.bincount(train.tags).argmax())
    return lambda text: np.array([usual.get(word, most) for word in text.words], np.int64), len(usual)


def shape(word: str) -> str:
    """``Dr.`` is ``Aa.``: runs of capitals, small letters and digits become one sign each."""
    kinds = (
        "A" if sign.isupper() else "a" if sign.isalpha() else "0" if sign.isdigit() else sign for sign in word[:20]
    )
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))


FORMS: tuple[Callable[[str], str], ...] = (str, lambda word: word[:AFFIX], lambda word: word[-AFFIX:], shape)


class Neighbours:
    """Logistic regression on the words around each word."""

    def __init__(self, train: TaggedText):
        self.indices = [numbers_of(map(form, train.words)) for form in FORMS]
        self.train = train

    @cached_property
    def starts(self) -> np.ndarray:
        """The first column of each group: of the word itself in all its forms, and of its neighbours."""
        sizes = [len(index) + 2 for index in self.indices] + [len(self.indices[0]) + 2] * (2 * REACH)
        return np.cumsum([0, *sizes])

    def matrix(self, text: TaggedText) -> Any:
        """(words, columns), with a one for each word and each form."""
        from scipy.sparse import csr_matrix

        columns = [
            np.array([index.get(form(word), UNKNOWN) for word in text.words], np.int64)
            for form, index in zip(FORMS, self.indices, strict=True)
        ]
        sentences = np.cumsum(text.begins)
        for step in (*range(-REACH, 0), *range(1, REACH + 1)):
            places = np.arange(len(text.words)) + step
            inside = (places >= 0) & (places < len(text.words))
            places = np.clip(places, 0, len(text.words) - 1)
            inside &= sentences[places] == sentences
            columns.append(np.where(inside, columns[0][places], EDGE))
        flat = np.stack(columns, axis=1) + self.starts[:-1]
        pointers = np.arange(len(flat) + 1) * flat.shape[1]
        return csr_matrix((np.ones(flat.size), flat.ravel(), pointers), (len(flat), int(self.starts[-1])))

    def fit(self) -> tuple[Callable[[TaggedText], np.ndarray], int]:
        """A function from a text to the tags of its words, and the number of parameters."""
        from sklearn.linear_model import SGDClassifier

        model = SGDClassifier(loss="log_loss", alpha=PENALTY, max_iter=ROUNDS, tol=None, random_state=0)
        model.fit(self.matrix(self.train), self.train.tags)
        return lambda text: model.predict(self.matrix(text)), int(model.coef_.size + model.intercept_.size)


def numbers_of(forms: Any) -> dict[str, int]:
    index: dict[str, int] = {}
    for form in forms:
        index.setdefault(form, len(index) + 2)
    return index
