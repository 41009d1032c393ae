"""Phrases: pairs of words that occur together more often than by chance become one word, such as ``new_york``.

    score(a, b) = (count(a b) - least) / (count(a) count(b)) * number of words

(Mikolov et al. 2013, https://arxiv.org/abs/1310.4546). A second pass makes longer phrases.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.config.errors import Problem
from headway.data.cache import kept, key_of
from headway.data.ragged import RaggedTokens
from headway.data.storage import write_array

MAX_PAIRS = 1 << 24  # distinct pairs; beyond that, pairs seen only once are dropped


@dataclass(frozen=True)
class Phrases:
    threshold: float = 100.0
    least: int = 5
    passes: int = 1

    def __post_init__(self) -> None:
        if self.threshold <= 0 or self.least < 0 or self.passes < 0:
            values = f"{self.threshold}, {self.least}, {self.passes}"
            raise Problem(f"phrases need threshold > 0, least >= 0 and passes >= 0, not {values}")

    def find(self, texts: RaggedTokens, counts: np.ndarray) -> np.ndarray:
        """(P, 2): the phrases as pairs of words, highest scores first. Words with count 0 are never part of one."""
        size = len(counts)
        keys, times = count_pairs(texts, counts)
        left, right = keys // size, keys % size
        scores = (times - self.least) / counts[left] / counts[right] * counts.sum()
        chosen = np.flatnonzero((scores > self.threshold) & (times >= self.least))
        best = chosen[np.lexsort((keys[chosen], -scores[chosen]))]
        return np.stack([left[best], right[best]], axis=1)


def count_pairs(texts: RaggedTokens, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adjacent pairs, as left * V + right, and their counts."""
    keys, times = np.empty(0, np.int64), np.empty(0, np.int64)
    for words, sizes in texts.chunks():
        here = pair_keys(words, sizes, len(counts))[(counts[words] > 0)[:-1] & (counts[words] > 0)[1:]]
        new, new_times = np.unique(here[here >= 0], return_counts=True)
        keys, inverse = np.unique(np.concatenate([keys, new]), return_inverse=True)
        times = np.bincount(inverse, np.concatenate([times, new_times]), len(keys)).astype(np.int64)
        if len(keys) > MAX_PAIRS:
            keys, times = keys[times > 1], times[times > 1]
    return keys, times


def pair_keys(words: np.ndarray, sizes: np.ndarray, size: int) -> np.ndarray:
    """Of each word with the next one; -1 across the end of a text."""
    keys = words[:-1].astype(np.int64) * size + words[1:]
    keys[np.cumsum(sizes)[:-1] - 1] = -1
    return keys


def join_phrases(texts: RaggedTokens, pairs: np.ndarray, size: int) -> RaggedTokens:
    """With pair i replaced by the word ``size`` + i. Of overlapping pairs the first is joined."""
    if not len(pairs):
        return texts
    key = key_of(whole=texts.key, pairs=pairs.tobytes().hex(), size=size)
    dtype = np.uint16 if size + len(pairs) <= 1 << 16 else np.uint32

    def write(folder: Path) -> None:
        known = pairs[:, 0] * size + pairs[:, 1]
        order, lengths = np.argsort(known), []
        with (folder / "tokens.bin").open("wb") as file:
            for words, sizes in texts.chunks():
                keys = pair_keys(words, sizes, size)
                pair = order[np.searchsorted(known, keys, sorter=order).clip(max=len(known) - 1)]
                is_pair = known[pair] == keys
                taken = np.append(every_other(is_pair), False)
                words = np.where(taken, size + np.append(pair, 0), words)
                kept_words = ~np.append(False, taken[:-1])
                file.write(words[kept_words].astype(dtype).tobytes())
                lengths.append(np.add.reduceat(kept_words, np.cumsum(sizes) - sizes))
        write_array(folder / "sizes.npy", np.concatenate(lengths))

    folder = kept("phrases", key, write)
    return RaggedTokens.mapped(folder / "tokens.bin", dtype, folder / "sizes.npy", key)


def every_other(flags: np.ndarray) -> np.ndarray:
    """The first, third, ... flag of each run of flags."""
    indices = np.arange(len(flags))
    before = np.maximum.accumulate(np.where(flags, -1, indices)) if len(flags) else indices
    return flags & ((indices - before) % 2 == 1)
