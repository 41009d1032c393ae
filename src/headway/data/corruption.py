"""Corruptions: what a model learns from texts without labels is to undo what was done to them.

Each takes a row of sequences and random numbers, and gives a batch:

- masked: some tokens are hidden, and are to be found again (Devlin et al. 2019, https://arxiv.org/abs/1810.04805): of
  these, most become [MASK], some another token, and some stay, so that no token can be trusted
- replaced: the same; what is hidden is filled in by a small model, and every token is to be judged: is it the one that
  stood there? (Clark et al. 2020, https://arxiv.org/abs/2003.10555)
- next: the same as masked, of sequences in two parts, of which half have the second part of another one: is it the
  next? (Devlin et al. 2019)
- span: stretches of tokens are cut out, a mark in the place of each, and are to be written down mark by mark (Raffel et
  al. 2020, https://arxiv.org/abs/1910.10683)
- causal: nothing is hidden but the future: each token is to be foretold from those before it
- prefix: the same behind a beginning whose tokens all see each other (Raffel et al. 2020)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from headway.config.errors import Problem
from headway.data.packed_batch import PackedPairBatch, PackedTokenBatch

SENTINELS = 100  # marks for stretches that were cut out, numbered behind all other tokens


@dataclass(frozen=True)
class Symbols:
    """What a corruption has to know of the tokens."""

    size: int  # how many there are, marks not counted
    ordinary: np.ndarray  # those that are not special
    begins: np.ndarray  # (size,): whether a token begins a word
    mask: int
    before: int  # [CLS]
    between: int  # [SEP]
    end: int

    @cached_property
    def is_ordinary(self) -> np.ndarray:
        return np.isin(np.arange(self.size), self.ordinary)


@dataclass(frozen=True)
class Row:
    """Sequences one behind another."""

    tokens: np.ndarray  # (N,)
    sizes: np.ndarray  # (n,), each at least 1
    longest: int  # that a sequence may be

    @property
    def ends(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def split(self) -> list[np.ndarray]:
        return np.split(self.tokens, self.ends[1:-1])


Corruption = Callable[[Row, Symbols, np.random.Generator], PackedTokenBatch]


def refuse_odd_rate(rate: float) -> None:
    if not 0 < rate < 1:
        raise Problem(f"a rate of {rate} is not between 0 and 1")


@dataclass(frozen=True)
class Masked:
    rate: float = 0.15  # of the tokens that are to be found again: exactly so many of a row
    hidden: float = 0.8  # of these, the share that becomes [MASK],
    other: float = 0.1  # and the share that becomes another token
    whole_words: bool = False

    def __post_init__(self) -> None:
        refuse_odd_rate(self.rate)
        if min(self.hidden, self.other) < 0 or self.hidden + self.other > 1:
            raise Problem(f"hidden={self.hidden} and other={self.other} are not two shares of one whole")

    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        places = self.places(row, symbols, random)
        inputs, fate = row.tokens.copy(), random.random(len(places))
        inputs[places[fate < self.hidden]] = symbols.mask
        swapped = places[(self.hidden <= fate) & (fate < self.hidden + self.other)]
        inputs[swapped] = random.choice(symbols.ordinary, len(swapped))
        return batch_of(inputs, row, row.tokens[places], places)

    def places(self, row: Row, symbols: Symbols, random: np.random.Generator) -> np.ndarray:
        """Those that are to be found again, in their order; never a special token."""
        ordinary = symbols.is_ordinary[row.tokens]
        count = min(max(round(self.rate * len(row.tokens)), 1), int(ordinary.sum()))
        rank = random.random(len(row.tokens))
        if self.whole_words:
            begins = symbols.begins[row.tokens] | ~ordinary
            begins[row.ends[:-1]] = True
            rank = rank[np.cumsum(begins) - 1]  # all tokens of a word are chosen together
        rank = np.where(ordinary, rank, 2.0)
        return np.sort(np.argpartition(rank, count - 1)[:count]) if count else np.empty(0, np.int64)


@dataclass(frozen=True)
class Replaced(Masked):
    """The same corruption; a small model fills in what is hidden, and another one says where it was wrong."""

    hidden: float = 1.0
    other: float = 0.0
    weight: float = 50.0  # of the mean loss over all tokens, beside that over those that were hidden


@dataclass(frozen=True)
class Next(Masked):
    weight: float = 20.0  # an answer counts as much as so many hidden tokens

    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        parts = [np.split(each, [cut_of(len(each), random)]) for each in row.split() if len(each) > 1]
        if not parts:
            raise Problem("no sequence has two tokens: there is no next part to tell from another")
        order = random.permutation(len(parts))
        partner = np.empty_like(order)
        partner[order] = np.roll(order, 1)  # of all: how long a second part is must not tell whose it is
        is_next = (random.random(len(parts)) < 0.5) | (partner == np.arange(len(parts)))
        seconds = []
        for (_, own), other, stays in zip(parts, partner, is_next, strict=True):
            size = min(len(own), len(parts[other][1]))
            seconds.append((own if stays else parts[other][1])[:size])
        before, between = [symbols.before], [symbols.between]
        whole = [
            np.concatenate([before, first, between, second, between])
            for (first, _), second in zip(parts, seconds, strict=True)
        ]
        sizes = np.array([len(each) for each in whole])
        joined = Row(np.concatenate(whole), sizes, max(row.longest + 3, int(sizes.max())))
        found = super().__call__(joined, symbols, random)
        return replace(found, sequence_labels=torch.from_numpy(is_next.astype(np.int64)))


def cut_of(size: int, random: np.random.Generator) -> int:
    """Somewhere in the middle half."""
    return int(random.integers(max(size // 4, 1), max(size - size // 4, 2)))


@dataclass(frozen=True)
class Span:
    rate: float = 0.15  # of the tokens that are cut out
    mean: float = 3.0  # tokens of a stretch

    def __post_init__(self) -> None:
        refuse_odd_rate(self.rate)
        if self.mean < 1:
            raise Problem(f"stretches of {self.mean} tokens in the mean: they have at least one each")

    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        pairs = [self.cut(each, symbols, random) for each in row.split() if len(each) > 1]
        if not pairs:
            raise Problem("no sequence has two tokens: nothing can be cut out of one")
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        given = [np.concatenate([[symbols.end], each[:-1]]) for each in targets]
        longest = max(row.longest, *map(len, given))  # marks may be more than what was left
        written, read = (Row(np.concatenate(each), sizes_of(each), longest) for each in (given, sources))
        found = batch_of(written.tokens, written, np.concatenate(targets), np.arange(len(written.tokens)))
        ends = torch.from_numpy(read.ends.astype(np.int32))
        return PackedPairBatch(**vars(found), sources=torch.from_numpy(read.tokens[None]), source_cu_seqlens=ends)

    def cut(self, tokens: np.ndarray, symbols: Symbols, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """What is left of a sequence, and what was cut out; both with marks, the latter with an end."""
        out = min(max(round(self.rate * len(tokens)), 1), len(tokens) - 1)
        stretches = min(max(round(out / self.mean), 1), out, len(tokens) - out, SENTINELS)
        left, gone = pieces(len(tokens) - out, stretches, random), pieces(out, stretches, random)
        borders = np.cumsum(np.stack([left, gone], axis=1).ravel())[:-1]  # kept, cut, kept, cut, ...
        parts = np.split(tokens, borders)
        marks = [np.array([symbols.size + number]) for number in range(stretches)]
        source = [each for kept, mark in zip(parts[::2], marks, strict=True) for each in (kept, mark)]
        target = [each for mark, cut in zip(marks, parts[1::2], strict=True) for each in (mark, cut)]
        return np.concatenate(source), np.concatenate([*target, [symbols.end]])


def pieces(total: int, count: int, random: np.random.Generator) -> np.ndarray:
    """Sizes of so many pieces, each at least 1, all ways to cut equally likely."""
    borders = np.sort(random.permutation(total - 1)[: count - 1]) + 1
    return np.diff(np.concatenate([[0], borders, [total]]))


def sizes_of(sequences: list[np.ndarray]) -> np.ndarray:
    return np.array([len(each) for each in sequences])


@dataclass(frozen=True)
class Causal:
    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        return following(row, np.ones_like(row.sizes))


@dataclass(frozen=True)
class Prefix:
    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        seen = random.integers(1, np.maximum(row.sizes, 2))
        found = following(row, seen)
        return replace(found, prefixes=torch.from_numpy(seen))


def following(row: Row, seen: np.ndarray) -> PackedTokenBatch:
    """Of each sequence, the tokens behind its first ``seen`` ones are to be foretold, each at the token before it."""
    places = np.arange(len(row.tokens))
    position = places - np.repeat(row.ends[:-1], row.sizes)
    targets = places[position >= np.repeat(seen, row.sizes)]
    return batch_of(row.tokens, row, row.tokens[targets], targets - 1)


def batch_of(inputs: np.ndarray, row: Row, targets: np.ndarray, places: np.ndarray) -> PackedTokenBatch:
    return PackedTokenBatch(
        torch.from_numpy(inputs.astype(np.int64)[None]),
        torch.from_numpy(targets.astype(np.int64)),
        cu_seqlens=torch.from_numpy(row.ends.astype(np.int32)),
        max_seqlen=row.longest,
        logit_positions=torch.from_numpy(places),
    )


CORRUPTIONS: dict[str, Callable[..., Corruption]] = {
    "masked": Masked,
    "replaced": Replaced,
    "next": Next,
    "span": Span,
    "causal": Causal,
    "prefix": Prefix,
}
