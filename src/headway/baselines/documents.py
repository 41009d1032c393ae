"""Documents as numbered words."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

# Words and signs; in scripts without spaces between words, each character is one.
WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\w+|[^\w\s]")
UNKNOWN = -1


def words_of(text: str) -> list[str]:
    return WORD.findall(text)


def folded_words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())


@dataclass(frozen=True)
class Documents:
    words: np.ndarray  # of all documents, one after another; UNKNOWN: a word that has no number
    sizes: np.ndarray  # (N,)

    @classmethod
    def of(cls, rows: list[np.ndarray]) -> "Documents":
        words = np.concatenate([np.empty(0, np.int64), *rows])
        return cls(words, np.array([len(row) for row in rows], np.int64))

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def owners(self) -> np.ndarray:
        """The document of each word."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.sizes) - self.sizes

    def take(self, rows: np.ndarray) -> "Documents":
        sizes = self.sizes[rows]
        inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return Documents(self.words[np.repeat(self.starts[rows], sizes) + inside], sizes)


@dataclass
class Words:
    """Numbers of words, in the order in which they are first seen."""

    split: Callable[[str], list[str]] = folded_words_of
    numbers: dict[str, int] = field(default_factory=dict)

    def learn(self, texts: Iterable[str]) -> Documents:
        """Gives a number to each new word."""
        numbers: defaultdict[str, int] = defaultdict(None, self.numbers)
        numbers.default_factory = numbers.__len__
        rows = [np.array([numbers[word] for word in self.split(text)], np.int64) for text in texts]
        self.numbers = dict(numbers)
        return Documents.of(rows)

    def read(self, texts: Iterable[str]) -> Documents:
        get = self.numbers.get
        return Documents.of([np.array([get(word, UNKNOWN) for word in self.split(text)], np.int64) for text in texts])
