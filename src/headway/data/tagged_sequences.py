"""Sequences of tokens with a tag for each word: the first token of a word carries it.

Words are read as one text, with a space between them, so that a tokenizer cuts them as it would anywhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.data.batch import PaddedBatch
from headway.data.sequences import Examples
from headway.nn.characters import spell
from headway.nn.masks import real_tokens
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import UNKNOWN

MOST_PIECES = 16  # tokens of a word that are read
SENTENCES_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class TaggedBatch(PaddedBatch):
    """Targets are (B, W): the tag of each word."""

    firsts: Tensor  # (B, W): the place of each word's first token
    words: Tensor | None = None  # (B,) real words in each row; None: all of them
    spellings: Tensor | None = None  # (U, L): characters of the different words
    spelled: Tensor | None = None  # (B, W): which of them each word is

    padded: ClassVar[dict[str, set[str]]] = {"lengths": {"inputs"}, "words": {"targets", "firsts", "spelled"}}

    @property
    def count(self) -> int:
        return self.targets.numel() if self.words is None else int(self.words.sum())

    @property
    def real(self) -> Tensor:
        """(B, W): True at the words of each row."""
        if self.words is None:
            return torch.ones_like(self.targets, dtype=torch.bool)
        return real_tokens(self.words, self.targets.shape[1])

    @property
    def model_inputs(self) -> tuple[Tensor | None, ...]:
        return self.inputs, self.lengths, self.firsts, self.spellings, self.spelled

    def take(self, rows: Tensor | slice) -> Self:
        """The rows share the spellings."""
        taken: Self = PaddedBatch.take(replace(self, spellings=None), rows)
        return replace(taken, spellings=self.spellings)


@dataclass(frozen=True, kw_only=True)
class TaggedSequences(Examples):
    """Rows are sentences, or parts of long ones."""

    firsts: np.ndarray  # (words,): the place of each word's first token in its row
    tags: np.ndarray  # (words,)
    word_starts: np.ndarray  # (N,): index of the first word of each row
    word_counts: np.ndarray  # (N,)
    sentences: np.ndarray  # (N,): which sentence each row is a part of
    texts: Sequence[str]  # (words,)
    spellings: np.ndarray | None = None  # (different words, L): their characters
    spelled: np.ndarray | None = None  # (words,): which of them each word is

    def take(self, rows: np.ndarray) -> Self:
        own = {name: vars(self)[name][rows] for name in ("word_starts", "word_counts", "sentences")}
        return replace(super().take(rows), **own)

    def batch(self, rows: np.ndarray) -> TaggedBatch:
        inputs, lengths = self.pad(rows)
        counts = self.word_counts[rows]
        real = np.arange(counts.max(initial=1)) < counts[:, None]
        places = np.where(real, self.word_starts[rows, None] + np.arange(real.shape[1]), 0)
        spellings = own_spelled = None
        if self.spellings is not None and self.spelled is not None:
            own = np.where(real, self.spelled[places], self.spelled[places[:, :1]])
            different, indices = np.unique(own, return_inverse=True)
            spellings = torch.from_numpy(self.spellings[different].astype(np.int64))
            own_spelled = torch.from_numpy(indices.reshape(real.shape))
        return TaggedBatch(
            inputs,
            torch.from_numpy(np.where(real, self.tags[places], 0)),
            None if bool((lengths == inputs.shape[1]).all()) else lengths,
            firsts=torch.from_numpy(np.where(real, self.firsts[places], 0)),
            words=None if real.all() else torch.from_numpy(counts),
            spellings=spellings,
            spelled=own_spelled,
        )

    @property
    def own_words(self) -> np.ndarray:
        """The indices of all words, row by row."""
        counts = self.word_counts
        return np.repeat(self.word_starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())

    @property
    def begins(self) -> np.ndarray:
        """Of ``own_words``: True at the first word of each row."""
        begins = np.zeros(int(self.word_counts.sum()), bool)
        begins[np.cumsum(self.word_counts) - self.word_counts] = True
        return begins


class Pieces(NamedTuple):
    """The tokens of sentences, one sentence after another."""

    tokens: np.ndarray
    sizes: np.ndarray  # (sentences,)
    firsts: np.ndarray  # (words,): the index of each word's first token


class Marks(NamedTuple):
    """Tokens around each sequence."""

    before: Sequence[int] = ()
    after: Sequence[int] = ()


def pieces_of(tokenizer: Tokenizer, words: Sequence[str], sizes: np.ndarray) -> Pieces:
    """The tokens of words, with at most MOST_PIECES for each; a word that leaves none is an unknown one."""
    ends = np.cumsum(sizes)
    parts, done = [], 0
    for first in range(0, len(sizes), SENTENCES_AT_ONCE):
        last = min(first + SENTENCES_AT_ONCE, len(sizes))
        begin, end = int(ends[first] - sizes[first]), int(ends[last - 1])
        part = some_pieces(tokenizer, words[begin:end], sizes[first:last])
        parts.append(part._replace(firsts=part.firsts + done))
        done += len(part.tokens)
    return Pieces(*(np.concatenate([np.empty(0, np.int64), *own]) for own in zip(*parts, strict=True)))


def some_pieces(tokenizer: Tokenizer, words: Sequence[str], sizes: np.ndarray) -> Pieces:
    ends = np.cumsum(sizes)
    texts = [" ".join(words[end - size : end]) for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]
    encoded = tokenizer.core.encode_batch(texts, add_special_tokens=False)
    lengths = np.array([len(word) for word in words])
    stops = np.cumsum(lengths + 1) - 1  # of each word in all texts, with a space or an end behind it
    starts = stops - lengths
    bases = starts[ends - sizes]  # of each text
    counts = np.array([len(each.ids) for each in encoded])
    tokens = np.array([token for each in encoded for token in each.ids], np.int64)
    offsets = np.array([pair for each in encoded for pair in each.offsets], np.int64).reshape(-1, 2)
    offsets += np.repeat(bases, counts)[:, None]
    last = np.maximum(offsets[:, 1] - 1, offsets[:, 0])  # character of each; the first may be the space before a word
    owners = np.searchsorted(starts, last, side="right") - 1
    inside = (offsets[:, 1] > offsets[:, 0]) & (offsets[:, 1] <= stops[owners])
    without = np.flatnonzero(np.bincount(owners[inside], minlength=len(words)) == 0)  # words that left no token
    unknown = np.full(len(without), tokenizer.vocabulary.index.get(UNKNOWN, 0))
    own = Owned(np.append(tokens, unknown), np.append(owners, without), np.append(inside, without >= 0))
    own = own.take(np.argsort(np.append(last, starts[without]), kind="stable"))
    place = np.cumsum(own.inside)
    own = own.take(~own.inside | (place - place[own.firsts(len(words))[own.owners]] < MOST_PIECES))
    sentences = np.searchsorted(ends, own.owners, side="right")
    return Pieces(own.tokens, np.bincount(sentences, minlength=len(sizes)), own.firsts(len(words)))


class Owned(NamedTuple):
    """Tokens, the words that they belong to or follow, and whether they belong to them."""

    tokens: np.ndarray
    owners: np.ndarray
    inside: np.ndarray

    def take(self, which: np.ndarray) -> "Owned":
        return Owned(self.tokens[which], self.owners[which], self.inside[which])

    def firsts(self, words: int) -> np.ndarray:
        """(words,): the index of each word's first token."""
        places = np.flatnonzero(self.inside)
        firsts = np.full(words, len(self.owners))
        np.minimum.at(firsts, self.owners[places], places)
        return firsts


def rows_of(pieces: Pieces, sizes: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """The first words of all rows, and the sentences that they belong to: longer ones are cut between words."""
    starts, ends = np.cumsum(sizes) - sizes, np.cumsum(pieces.sizes)
    cuts, owners = [starts], [np.arange(len(sizes))]
    for sentence in np.flatnonzero(pieces.sizes > longest).tolist():
        first, begin = int(starts[sentence]), int(ends[sentence] - pieces.sizes[sentence])
        own = np.append(pieces.firsts[first : first + sizes[sentence]], ends[sentence]).tolist()
        for word, (place, after) in enumerate(pairwise(own)):
            if after - begin > longest and word:
                begin = place
                cuts.append(np.array([first + word]))
                owners.append(np.array([sentence]))
    rows = np.concatenate(cuts)
    order = np.argsort(rows, kind="stable")
    return rows[order], np.concatenate(owners)[order]


def encode(
    tokenizer: Tokenizer,
    words: Sequence[str],
    tags: np.ndarray,
    sizes: np.ndarray,
    longest: int,
    marks: Marks,
    with_spellings: bool,
    key: str = "",
) -> TaggedSequences:
    """``sizes`` (sentences,) are those of the sentences that the words make up, one after another."""
    pieces = pieces_of(tokenizer, words, sizes)
    added = len(marks.before) + len(marks.after)
    word_starts, sentences = rows_of(pieces, sizes, longest - added)
    counts = np.diff(np.append(word_starts, len(words)))
    begin_of_sentence = np.cumsum(pieces.sizes) - pieces.sizes
    is_first = np.append(True, np.diff(sentences) > 0)[: len(sentences)]
    begins = np.where(is_first, begin_of_sentence[sentences], pieces.firsts[word_starts])
    lengths = np.diff(np.append(begins, len(pieces.tokens)))
    if len(lengths) and int(lengths.max()) > longest - added:
        raise Problem(f"data.max_length={longest} leaves no room for a word of {int(lengths.max())} tokens")
    starts = np.cumsum(lengths + added) - lengths - added
    tokens = np.empty(int((lengths + added).sum()), np.int64)
    inside = np.repeat(starts + len(marks.before) - begins, lengths) + np.arange(len(pieces.tokens))
    tokens[inside] = pieces.tokens
    for place, mark in enumerate(marks.before):
        tokens[starts + place] = mark
    for place, mark in enumerate(marks.after):
        tokens[starts + len(marks.before) + lengths + place] = mark
    firsts = pieces.firsts - np.repeat(begins, counts) + len(marks.before)
    spellings, spelled = spellings_of(words) if with_spellings else (None, None)
    return TaggedSequences(
        tokens,
        starts,
        lengths + added,
        key,
        firsts=firsts,
        tags=tags,
        word_starts=word_starts,
        word_counts=counts,
        sentences=sentences,
        texts=words,
        spellings=spellings,
        spelled=spelled,
    )


def spellings_of(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    index: dict[str, int] = {}
    spelled = np.array([index.setdefault(word, len(index)) for word in words], np.int64)
    return np.array([spell(word) for word in index], np.int16), spelled
