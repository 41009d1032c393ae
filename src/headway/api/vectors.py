"""Word vectors: of a run, or of a file of word2vec, fastText or GloVe."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headway.config.arguments import checked, checked_methods
from headway.config.errors import Problem
from headway.lab import word_vectors as lab
from headway.lab.word_vectors import Benchmarks
from headway.metrics.table import Listing
from headway.runs.run import Run
from headway.runs.warm_start import word_vectors_of
from headway.tasks.word2vec import word_vectors as words
from headway.tasks.word2vec.formats import FORMATS, write
from headway.tasks.word2vec.ngrams import Ngrams

__all__ = [
    "Benchmarks",
    "Neighbour",
    "Ngram",
    "WordVectors",
    "load_vectors",
    "ngrams",
]


class Neighbour(NamedTuple):
    word: str
    cosine: float


@checked_methods
class WordVectors(words.WordVectors):
    """Vectors of words.

    >>> len(vectors), vectors.width
    (53, 8)
    """

    @classmethod
    def of(cls, own: words.WordVectors) -> "WordVectors":
        return cls(**{field.name: getattr(own, field.name) for field in dataclasses.fields(own)})

    def vector(self, word: str) -> np.ndarray:
        """The vector of a word (D,); with fastText's n-grams, also of words that are not in the table.

        >>> vectors.vector("plot").shape
        (8,)
        """
        return super().vector(word)

    def nearest(self, word: str, count: int = 10) -> Listing[Neighbour]:
        """The words with the most similar vectors.

        >>> len(vectors.nearest("plot", 3))
        3
        """
        return Listing(Neighbour(*each) for each in super().nearest(word, count))

    def analogy(self, one: str, other: str, third: str, count: int = 10) -> Listing[Neighbour]:
        """``one`` is to ``other`` as ``third`` is to what?

        >>> len(vectors.analogy("plot", "music", "cast", 3))
        3
        """
        return Listing(Neighbour(*each) for each in super().analogy(one, other, third, count))

    def similarity(self, one: str, other: str) -> float:
        """The cosine similarity of two words.

        >>> round(vectors.similarity("plot", "plot"), 4)
        1.0
        """
        return super().similarity(one, other)

    def evaluate(self, *files: str | Path) -> Benchmarks:
        """On files of word pairs with similarity scores, and of analogies (four words per line).

        >>> _ = Path("pairs.txt").write_text("plot music 7.5\\nplot cast 3.0\\nmusic cast 1.0\\n")
        >>> vectors.evaluate("pairs.txt").similarity[Path("pairs.txt")].pairs
        3
        """
        return lab.evaluate(self, [Path(file) for file in files])

    def save(self, path: str | Path, *, to: str = "text") -> None:
        """Write a new file: ``text`` (word2vec's text format), ``glove``, ``word2vec`` (binary) or ``fasttext``.

        >>> vectors.save("vectors.txt")
        """
        if to not in FORMATS:
            raise Problem(f"no such format {to!r}: there are {', '.join(FORMATS)}")
        if Path(path).exists():
            raise Problem(f"{path} exists already: name another file, or remove it")
        write(self, Path(path), to)

    def map(self, path: str | Path, words: Sequence[str] = (), *, top: int = 300, title: str = "") -> list[str]:
        """Draw a two-dimensional map of the words, or of the ``top`` most frequent ones, as .png or .html; returns the
        words that are on it.

        >>> vectors.map("map.html", ["plot", "music", "cast"])
        ['plot', 'music', 'cast']
        """
        write_map = lab.map_writer(Path(path))
        shown = list(dict.fromkeys(words)) or self.words[:top]
        write_map(Path(path), shown, lab.map_words(self, shown), title or f"{len(shown):,} words")
        return shown


@checked
def load_vectors(source: str | Path | Run) -> WordVectors:
    """The word vectors of a run, or of a file of word2vec, fastText or GloVe.

    >>> vectors.save("saved.txt")
    >>> len(hw.load_vectors("saved.txt"))
    53
    """
    return WordVectors.of(word_vectors_of(source.folder if isinstance(source, Run) else Path(source)))


class Ngram(NamedTuple):
    ngram: str
    bucket: int | None  # None: the word itself, which has a row of its own


@checked
def ngrams(word: str, *, least: int = 3, most: int = 6, buckets: int = 2_000_000) -> Listing[Ngram]:
    """The units that fastText makes a word of: the word itself, between its marks, and its character n-grams with the
    buckets that they are hashed to.

    >>> [each.ngram for each in hw.ngrams("cat", least=3, most=3)]
    ['<cat>', '<ca', 'cat', 'at>']
    """
    if not word.strip():
        raise Problem("an empty word has no n-grams")
    units = Ngrams(least, most, buckets)
    own = Ngram(f"<{word}>", None)
    return Listing([own, *(Ngram(unit, units.bucket(unit)) for unit in units.of(word))])
