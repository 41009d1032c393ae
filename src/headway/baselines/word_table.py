"""A baseline for translation: word by word, with a table.

The table is that of IBM model 1 (Brown et al. 1993, https://aclanthology.org/J93-2003): each target word comes from
one of the source words, or from none of them, with p(target | source); EM finds these probabilities from pairs of
sentences.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.baselines.documents import Documents, Words, words_of

NONE = 0  # the source word that stands for none
ROUNDS = 5  # of EM
MOST_LINKS = 12_000_000  # between words of a pair; if there are more, evenly spaced pairs are read
CLOSING = re.compile(r" (?=[.,;:!?%)\]}…。，、！？])|(?<=[(\[{]) |(?<=\w) (?=['’])|(?<=['’]) (?=\w)")


@dataclass(frozen=True)
class WordTable:
    best: dict[str, str]  # the likeliest translation of each source word

    @classmethod
    def learn(cls, sources: Sequence[str], targets: Sequence[str]) -> "WordTable":
        own, other = Words(words_of), Words(words_of, {"": NONE})
        target, source = own.learn(targets), other.learn(sources)
        links = ((source.sizes + 1) * target.sizes).sum()
        rows = np.arange(0, len(source), max(-(-int(links) // MOST_LINKS), 1))
        best = likeliest(source.take(rows), target.take(rows))
        names = list(own.numbers)
        return cls({word: names[best[number]] for word, number in other.numbers.items() if number in best})

    def translate(self, text: str) -> str:
        """Words that are not in the table are copied."""
        return CLOSING.sub("", " ".join(self.best.get(word, word) for word in words_of(text)))


def likeliest(source: Documents, target: Documents) -> dict[int, int]:
    """The target word with the highest probability for each source word."""
    sources, targets, chances, _ = translation_table(source, target)
    by_chance = np.lexsort((-chances, sources))
    is_first = np.diff(sources[by_chance], prepend=-1) != 0
    best = by_chance[is_first]
    return {each: to for each, to in zip(sources[best].tolist(), targets[best].tolist(), strict=True) if each != NONE}


def translation_table(
    source: Documents, target: Documents, rounds: int = ROUNDS
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Source words, target words that occur with them and their probabilities; and the log-likelihood before each
    round."""
    links = source.sizes[target.owners] + 1  # of each target word: to the source words of its pair, and to none
    places = np.arange(links.sum()) - np.repeat(np.cumsum(links) - links, links)  # 0: none
    starts = np.repeat(source.starts[target.owners], links)
    sources = np.where(places == 0, NONE, np.append(source.words, NONE)[starts + places - 1])
    base = int(target.words.max(initial=0)) + 1
    codes, types = np.unique(sources * base + np.repeat(target.words, links), return_inverse=True)
    own, begins = codes // base, np.cumsum(links) - links
    chances, likelihoods = np.full(len(codes), 1 / base), []
    for _ in range(rounds):
        weights = chances[types]
        sums = np.add.reduceat(weights, begins) if len(begins) else np.empty(0)
        likelihoods.append(np.log(sums / links).sum())
        expected = np.bincount(types, weights / np.repeat(sums, links), len(codes))
        chances = expected / np.bincount(own, expected)[own]
    return own, codes % base, chances, np.array(likelihoods)
