"""Baselines for language models: an n-gram model, and the compression of xz.

The n-gram model is that of modified Kneser-Ney smoothing, interpolated (Chen & Goodman 1999,
https://doi.org/10.1006/csla.1999.0128):

    p(w | h) = max(c(h w) - D(c), 0) / c(h) + γ(h) p(w | h')

h' is h without its first token, γ(h) what the discounts D have left over, and below the longest order c(h w) is the
number of different tokens before h w. At the end of the recursion all tokens are equally likely. Nothing loops over
tokens: an n-gram is known by the number of its first n - 1 tokens and its last one, and each order is one sort.
"""

import lzma
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LONGEST_TEXT = 8 << 20  # bytes before the test text that xz reads: as many as it looks back
UNSEEN = -1


@dataclass(frozen=True)
class Order:
    """The n-grams of one length."""

    codes: np.ndarray  # sorted: number of the context * vocabulary + last token
    counts: np.ndarray
    totals: np.ndarray  # of each context: sum of the counts,
    left_over: np.ndarray  # and the probability mass for shorter contexts
    discounts: np.ndarray  # for counts of 0, 1, 2, and 3 or more

    @classmethod
    def of(cls, codes: np.ndarray, counts: np.ndarray, contexts: int, vocabulary: int) -> "Order":
        discounts, owners = discounts_of(counts), codes // vocabulary
        totals = np.bincount(owners, counts, contexts)
        taken = np.bincount(owners, discounts[np.minimum(counts, 3)], contexts)
        return cls(codes, counts, totals, taken / np.maximum(totals, 1), discounts)


class KneserNey:
    """Learned from streams of tokens; n-grams do not cross from one stream to the next."""

    def __init__(self, streams: Sequence[np.ndarray], vocabulary: int, longest: int = 5):
        self.vocabulary, self.longest = vocabulary, longest
        tokens, places = np.concatenate(streams).astype(np.int64), places_in(streams)
        types, suffixes = (
            [],
            [],
        )  # of each order: codes with counts; and the number of the n-gram without its first token
        ids = np.zeros(len(tokens), np.int64)
        for order in range(1, longest + 1):
            own = np.flatnonzero(places >= order - 1)
            codes = tokens[own] if order == 1 else ids[own - 1] * vocabulary + tokens[own]
            known, first, numbers, counts = np.unique(codes, True, True, True)
            suffixes.append(ids[own[first]])
            types.append((known, counts))
            ids = np.full(len(tokens), UNSEEN)
            ids[own] = numbers
        self.orders: list[Order] = []
        for number, (codes, counts) in enumerate(types):
            if number + 1 < longest:  # different tokens before it, instead of its count
                counts = np.bincount(suffixes[number + 1], minlength=len(codes))
            contexts = 1 if number == 0 else len(types[number - 1][0])
            self.orders.append(Order.of(codes, counts, contexts, vocabulary))

    @property
    def parameters(self) -> int:
        return sum(len(order.codes) for order in self.orders)

    def probabilities(self, tokens: np.ndarray) -> np.ndarray:
        """(T,): of each token of a stream, given those before it."""
        tokens = tokens.astype(np.int64)
        chances = np.full(len(tokens), 1 / self.vocabulary)
        contexts = np.zeros(len(tokens), np.int64)  # of each token: the number of the n-gram before it
        for order in self.orders:
            known = np.flatnonzero(contexts != UNSEEN)
            at, hits = find(order.codes, contexts[known] * self.vocabulary + tokens[known])
            own = contexts[known]
            counts = np.where(hits, order.counts[at], 0)
            totals = order.totals[own]
            share = np.maximum(counts - order.discounts[np.minimum(counts, 3)], 0) / np.maximum(totals, 1)
            mixed = share + order.left_over[own] * chances[known]
            chances[known] = np.where(totals > 0, mixed, chances[known])
            ids = np.full(len(tokens), UNSEEN)
            ids[known] = np.where(hits, at, UNSEEN)
            contexts = np.concatenate([[UNSEEN], ids[:-1]])
        return chances


def find(codes: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each is among sorted codes, and whether it is there."""
    by_code = np.argsort(wanted)  # a search in order is far quicker
    at = np.empty(len(wanted), np.int64)
    at[by_code] = np.minimum(np.searchsorted(codes, wanted[by_code]), len(codes) - 1)
    return at, codes[at] == wanted


def places_in(streams: Sequence[np.ndarray]) -> np.ndarray:
    """Of each token: how many are before it in its stream."""
    return np.concatenate([np.arange(len(each)) for each in streams])


def discounts_of(counts: np.ndarray) -> np.ndarray:
    """For counts of 0, 1, 2, and 3 or more, from how many n-grams have a count of 1, 2, 3 and 4. Where there are none
    of these, as in a very short text, the discount is a half of the count."""
    n1, n2, n3, n4 = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    discounts = np.array([0.0, 0.5, 1.0, 1.5])
    if n1 and n2:
        share = n1 / (n1 + 2 * n2)
        discounts[1:3] = 1 - 2 * share * n2 / n1, 2 - 3 * share * n3 / n2
        if n3:
            discounts[3] = 3 - 4 * share * n4 / n3
    return np.clip(discounts, [0, 0, 0, 0], [0, 1, 2, 3])


def xz_bits(train: bytes, test: bytes) -> int:
    """How many bits longer the training text becomes by the test text, compressed by xz."""
    before = train[-LONGEST_TEXT:]
    return 8 * (len(lzma.compress(before + test)) - len(lzma.compress(before)))
