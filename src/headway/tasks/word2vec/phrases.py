"""Phrases: two words that stand side by side more often than chance would have it become one, as ``new_york``.

    score(a, b) = (count(a b) - least) / (count(a) count(b)) * how many words the text has

(Mikolov et al. 2013, https://arxiv.org/abs/1310.4546). A second pass joins phrases with words, and with each other.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.config.errors import Problem
from headway.data.cache import kept, key_of
from headway.data.ragged import RaggedTokens

MOST = 1 << 24  # different pairs that are counted at once; beyond, those that have come only once are forgotten


@dataclass(frozen=True)
class Phrases:
    threshold: float = 100.0
    least: int = 5
    passes: int = 1

    def __post_init__(self) -> None:
        if self.threshold <= 0 or self.least < 0 or self.passes < 0:
            raise Problem(f"phrases of threshold {self.threshold}, least {self.least}, passes {self.passes} cannot be")

    def found(self, whole: RaggedTokens, counts: np.ndarray) -> np.ndarray:
        """(P, 2): pairs of words that are phrases, those with the highest scores first; words of count 0 are none."""
        size = len(counts)
        keys, times = pairs_in(whole, counts)
        left, right = keys // size, keys % size
        scores = (times - self.least) / counts[left] / counts[right] * counts.sum()
        chosen = np.flatnonzero((scores > self.threshold) & (times >= self.least))
        best = chosen[np.lexsort((keys[chosen], -scores[chosen]))]
        return np.stack([left[best], right[best]], axis=1)


def pairs_in(whole: RaggedTokens, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of neighbours, as left * V + right, and how often each comes."""
    keys, times = np.empty(0, np.int64), np.empty(0, np.int64)
    for words, sizes in whole.chunks():
        here = pair_keys(words, sizes, len(counts))[(counts[words] > 0)[:-1] & (counts[words] > 0)[1:]]
        new, often = np.unique(here[here >= 0], return_counts=True)
        keys, inverse = np.unique(np.concatenate([keys, new]), return_inverse=True)
        times = np.bincount(inverse, np.concatenate([times, often]), len(keys)).astype(np.int64)
        if len(keys) > MOST:
            keys, times = keys[times > 1], times[times > 1]
    return keys, times


def pair_keys(words: np.ndarray, sizes: np.ndarray, size: int) -> np.ndarray:
    """Of each word and the next one; -1 where a text ends between them."""
    keys = words[:-1].astype(np.int64) * size + words[1:]
    keys[np.cumsum(sizes)[:-1] - 1] = -1
    return keys


def joined(whole: RaggedTokens, pairs: np.ndarray, size: int) -> RaggedTokens:
    """With the pair i, of words below ``size``, as the word ``size`` + i. Of pairs that overlap, the first is taken."""
    if not len(pairs):
        return whole
    key = key_of(whole=whole.key, pairs=pairs.tobytes().hex(), size=size)
    kind = np.uint16 if size + len(pairs) <= 1 << 16 else np.uint32

    def write(folder: Path) -> None:
        known = pairs[:, 0] * size + pairs[:, 1]
        order, lengths = np.argsort(known), []
        with (folder / "tokens.bin").open("wb") as file:
            for words, sizes in whole.chunks():
                found = np.searchsorted(known, pair_keys(words, sizes, size), sorter=order).clip(max=len(known) - 1)
                is_pair = known[order[found]] == pair_keys(words, sizes, size)
                taken = np.append(every_other(is_pair), False)
                words = np.where(taken, size + np.append(order[found], 0), words)
                kept_words = ~np.append(False, taken[:-1])
                file.write(words[kept_words].astype(kind).tobytes())
                lengths.append(np.add.reduceat(kept_words, np.cumsum(sizes) - sizes))
        np.save(folder / "sizes.npy", np.concatenate(lengths))

    folder = kept("phrases", key, write)
    return RaggedTokens.mapped(folder / "tokens.bin", kind, folder / "sizes.npy", key)


def every_other(flags: np.ndarray) -> np.ndarray:
    """Of flags that follow each other, the first, the third and so on."""
    places = np.arange(len(flags))
    before = np.maximum.accumulate(np.where(flags, -1, places)) if len(flags) else places
    return flags & ((places - before) % 2 == 1)
