"""Corruptions: pre-training objectives on texts without labels; the model learns to undo the corruption.

Each takes packed sequences and a random generator, and gives a batch:

- masked: predict masked tokens (BERT, Devlin et al. 2019, https://arxiv.org/abs/1810.04805); most of them become
  [MASK], some a random token, and some stay, so that no token can be trusted
- replaced: a small model fills in the masked tokens, and the model detects which tokens were replaced (ELECTRA, Clark
  et al. 2020, https://arxiv.org/abs/2003.10555)
- next: masked, on sequences in two parts, half of which have the second part of another sequence: is it the next one?
  (BERT's next sentence prediction)
- span: spans are replaced by sentinels, and the decoder writes the sentinels with the missing tokens (T5, Raffel et al.
  2020, https://arxiv.org/abs/1910.10683)
- causal: predict each token from those before it
- prefix: causal after a prefix whose tokens all see each other (Raffel et al. 2020)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from headway.config.errors import Problem
from headway.data.packed_batch import PackedPairBatch, PackedTokenBatch

SENTINELS = 100  # one for each removed span, numbered after all other tokens


@dataclass(frozen=True)
class Symbols:
    """What a corruption needs to know about the vocabulary."""

    size: int  # of the vocabulary, without sentinels
    ordinary: np.ndarray  # the tokens that are not special
    begins: np.ndarray  # (size,): whether a token begins a word
    mask: int
    cls: int
    sep: int
    eos: int

    @cached_property
    def is_ordinary(self) -> np.ndarray:
        return np.isin(np.arange(self.size), self.ordinary)


@dataclass(frozen=True)
class Row:
    """Packed sequences."""

    tokens: np.ndarray  # (N,)
    sizes: np.ndarray  # (n,), each at least 1
    longest: int  # maximum length of a sequence

    @property
    def ends(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def split(self) -> list[np.ndarray]:
        return np.split(self.tokens, self.ends[1:-1])


Corruption = Callable[[Row, Symbols, np.random.Generator], PackedTokenBatch]


def refuse_odd_rate(rate: float) -> None:
    if not 0 < rate < 1:
        raise Problem(f"the rate {rate} is not between 0 and 1")


@dataclass(frozen=True)
class Masked:
    rate: float = 0.15  # of the tokens of a row to predict, rounded to a whole number
    hidden: float = 0.8  # of these, the fraction that becomes [MASK]
    other: float = 0.1  # and the fraction that becomes a random token
    whole_words: bool = False

    def __post_init__(self) -> None:
        refuse_odd_rate(self.rate)
        if min(self.hidden, self.other) < 0 or self.hidden + self.other > 1:
            raise Problem(f"hidden={self.hidden} and other={self.other} must be at least 0 and add up to at most 1")

    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        positions = self.positions(row, symbols, random)
        inputs, fate = row.tokens.copy(), random.random(len(positions))
        # learn: begin pretrain.masked
        inputs[positions[fate < self.hidden]] = symbols.mask
        swapped = positions[(self.hidden <= fate) & (fate < self.hidden + self.other)]
        inputs[swapped] = random.choice(symbols.ordinary, len(swapped))
        # learn: end
        return batch_of(inputs, row, row.tokens[positions], positions)

    def positions(self, row: Row, symbols: Symbols, random: np.random.Generator) -> np.ndarray:
        """The positions to predict, sorted; never those of special tokens."""
        ordinary = symbols.is_ordinary[row.tokens]
        count = min(max(round(self.rate * len(row.tokens)), 1), int(ordinary.sum()))
        rank = random.random(len(row.tokens))
        if self.whole_words:
            begins = symbols.begins[row.tokens] | ~ordinary
            begins[row.ends[:-1]] = True
            rank = rank[np.cumsum(begins) - 1]  # all tokens of a word are masked together
        rank = np.where(ordinary, rank, 2.0)
        if not count:
            return np.empty(0, np.int64)
        if self.whole_words:  # the last word is masked whole, which may be a few tokens more
            return np.flatnonzero(rank <= np.partition(rank, count - 1)[count - 1])
        return np.sort(np.argpartition(rank, count - 1)[:count])


@dataclass(frozen=True)
class Replaced(Masked):
    """The same corruption; a small model fills in the masked tokens, and the model detects where it was wrong."""

    hidden: float = 1.0
    other: float = 0.0
    weight: float = 50.0  # of the detection loss, beside that of the masked tokens


@dataclass(frozen=True)
class Next(Masked):
    weight: float = 20.0  # a sequence label counts as much as this many masked tokens

    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        parts = [np.split(tokens, [cut_of(len(tokens), random)]) for tokens in row.split() if len(tokens) > 1]
        if not parts:
            raise Problem("no sequence has two tokens: next sentence prediction needs two parts")
        order = random.permutation(len(parts))
        partner = np.empty_like(order)
        partner[order] = np.roll(order, 1)  # for all of them: the length of a second part must not reveal whose it is
        is_next = (random.random(len(parts)) < 0.5) | (partner == np.arange(len(parts)))
        seconds = []
        for (_, own), other, stays in zip(parts, partner, is_next, strict=True):
            size = min(len(own), len(parts[other][1]))
            seconds.append((own if stays else parts[other][1])[:size])
        cls, sep = [symbols.cls], [symbols.sep]
        whole = [
            np.concatenate([cls, first, sep, second, sep]) for (first, _), second in zip(parts, seconds, strict=True)
        ]
        sizes = sizes_of(whole)
        joined = Row(np.concatenate(whole), sizes, max(row.longest + 3, int(sizes.max())))
        batch = super().__call__(joined, symbols, random)
        return replace(batch, sequence_labels=torch.from_numpy(is_next.astype(np.int64)))


def cut_of(size: int, random: np.random.Generator) -> int:
    """A random position in the middle half."""
    return int(random.integers(max(size // 4, 1), max(size - size // 4, 2)))


@dataclass(frozen=True)
class Span:
    rate: float = 0.15  # of the tokens to remove
    mean: float = 3.0  # tokens per span

    def __post_init__(self) -> None:
        refuse_odd_rate(self.rate)
        if self.mean < 1:
            raise Problem(f"a mean span of {self.mean} tokens is too short: at least 1")

    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        pairs = [self.cut(tokens, symbols, random) for tokens in row.split() if len(tokens) > 1]
        if not pairs:
            raise Problem("no sequence has two tokens: spans cannot be removed from one")
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        inputs = [np.concatenate([[symbols.eos], tokens[:-1]]) for tokens in targets]
        longest = max(row.longest, *map(len, inputs))  # there may be more sentinels than tokens were removed
        written, read = (Row(np.concatenate(side), sizes_of(side), longest) for side in (inputs, sources))
        batch = batch_of(written.tokens, written, np.concatenate(targets), np.arange(len(written.tokens)))
        ends = torch.from_numpy(read.ends.astype(np.int32))
        return PackedPairBatch(**vars(batch), sources=torch.from_numpy(read.tokens[None]), source_cu_seqlens=ends)

    def cut(self, tokens: np.ndarray, symbols: Symbols, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The source, with sentinels for the removed spans, and the target: each sentinel with its span, then eos."""
        removed = min(max(round(self.rate * len(tokens)), 1), len(tokens) - 1)
        spans = min(max(round(removed / self.mean), 1), removed, len(tokens) - removed, SENTINELS)
        sizes = pieces(len(tokens) - removed, spans, random), pieces(removed, spans, random)
        # learn: begin pretrain.span
        borders = np.cumsum(np.stack(sizes, axis=1).ravel())[:-1]  # kept, removed, kept, removed, ...
        parts = np.split(tokens, borders)
        sentinels = [np.array([symbols.size + number]) for number in range(spans)]
        source = [part for kept, sentinel in zip(parts[::2], sentinels, strict=True) for part in (kept, sentinel)]
        target = [part for sentinel, span in zip(sentinels, parts[1::2], strict=True) for part in (sentinel, span)]
        return np.concatenate(source), np.concatenate([*target, [symbols.eos]])
        # learn: end


def pieces(total: int, count: int, random: np.random.Generator) -> np.ndarray:
    """The sizes of ``count`` pieces, each at least 1; all partitions are equally likely."""
    borders = np.sort(random.permutation(total - 1)[: count - 1]) + 1
    return np.diff(np.concatenate([[0], borders, [total]]))


def sizes_of(sequences: list[np.ndarray]) -> np.ndarray:
    return np.array([len(tokens) for tokens in sequences])


@dataclass(frozen=True)
class Causal:
    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        return following(row, np.ones_like(row.sizes))


@dataclass(frozen=True)
class Prefix:
    def __call__(self, row: Row, symbols: Symbols, random: np.random.Generator) -> PackedTokenBatch:
        prefixes = random.integers(1, np.maximum(row.sizes, 2))
        return replace(following(row, prefixes), prefixes=torch.from_numpy(prefixes))


def following(row: Row, prefixes: np.ndarray) -> PackedTokenBatch:
    """Predict the tokens of each sequence after its prefix, each at the position before it."""
    indices = np.arange(len(row.tokens))
    positions = indices - np.repeat(row.ends[:-1], row.sizes)
    targets = indices[positions >= np.repeat(prefixes, row.sizes)]
    return batch_of(row.tokens, row, row.tokens[targets], targets - 1)


def batch_of(inputs: np.ndarray, row: Row, targets: np.ndarray, positions: np.ndarray) -> PackedTokenBatch:
    return PackedTokenBatch(
        torch.from_numpy(inputs.astype(np.int64)[None]),
        torch.from_numpy(targets.astype(np.int64)),
        cu_seqlens=torch.from_numpy(row.ends.astype(np.int32)),
        max_seqlen=row.longest,
        logit_positions=torch.from_numpy(positions),
    )


CORRUPTIONS: dict[str, Callable[..., Corruption]] = {
    "masked": Masked,
    "replaced": Replaced,
    "next": Next,
    "span": Span,
    "causal": Causal,
    "prefix": Prefix,
}
