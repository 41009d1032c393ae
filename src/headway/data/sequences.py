"""Sequences of tokens, and how rows of them become a batch. Sequences are truncated and padded only here."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.recipe import TrainSpec
from headway.data.batch import Batch, LabelledBatch, NextTokenBatch
from headway.data.mixtures import Mixes
from headway.data.packed_batch import PackedLabelledBatch, PackedTokenBatch
from headway.data.ragged import RaggedTokens
from headway.data.samplers import ExampleSampler, buckets
from headway.data.splitting import shared_with_training
from headway.nn.packing import Packing
from headway.text.vocabulary import PAD

KEEPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # tokens kept at the beginning, of all that are kept
    "head": lambda kept: kept,
    "tail": lambda kept: 0 * kept,
    "both": lambda kept: (kept + 1) // 2,
}


class Packed(NamedTuple):
    row: Tensor  # (1, N)
    cu_seqlens: Tensor
    max_seqlen: int


@dataclass(frozen=True)
class Sequences(RaggedTokens):
    limit: int | None = None  # longer ones are truncated to this many tokens
    keep: str = "head"  # which end a truncated one keeps
    prefix: int | None = None  # a token to prepend to each
    packed: bool = False  # whether batches are packed

    @classmethod
    def join(cls, rows: list[np.ndarray], **fields: Any) -> Self:
        sizes = np.array([len(row) for row in rows], dtype=np.int64)
        tokens = np.concatenate(rows) if rows else np.empty(0, np.int64)
        key = hashlib.blake2b(tokens.tobytes() + sizes.tobytes(), digest_size=16).hexdigest()
        return cls(tokens, np.cumsum(sizes) - sizes, sizes, key, **fields)

    @property
    def kept(self) -> np.ndarray:
        """The length of each after truncation."""
        return self.sizes if self.limit is None else np.minimum(self.sizes, self.limit)

    @property
    def lengths(self) -> np.ndarray:
        """The length of each in a batch."""
        return self.kept + (self.prefix is not None)

    def truncate(self, limit: int) -> Self:
        return replace(self, limit=limit)

    def pad(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """(B, T) tokens, and (B,) lengths."""
        chosen = self.take(rows)
        kept, sizes = chosen.kept[:, None], chosen.sizes[:, None]
        columns = np.arange(max(kept.max(initial=0), 1))  # a text without tokens is one token of padding
        real = columns < kept
        indices = chosen.starts[:, None] + columns + np.where(columns < KEEPS[self.keep](kept), 0, sizes - kept)
        inputs = np.full(real.shape, PAD, dtype=np.int64)
        inputs[real] = self.tokens[indices[real]]
        if self.prefix is not None:
            inputs = np.concatenate([np.full((len(rows), 1), self.prefix), inputs], axis=1)
        return torch.from_numpy(inputs), torch.from_numpy(chosen.lengths)

    def kept_tokens(self, row: int) -> list[int]:
        """The indices of a sequence's tokens that are left after truncation."""
        size, kept = int(self.sizes[row]), int(self.kept[row])
        front = int(KEEPS[self.keep](np.array(kept)))
        return [*range(front), *range(size - kept + front, size)]

    def pack(self, rows: np.ndarray) -> Packed:
        """All of them in one row."""
        inputs, lengths = self.pad(rows)
        real = torch.arange(inputs.shape[1]) < lengths[:, None]
        longest = int(self.lengths.max(initial=1)) if self.limit is None else self.limit + (self.prefix is not None)
        return Packed(inputs[real][None], F.pad(lengths.cumsum(0), (1, 0)).to(torch.int32), longest)


def fingerprints(data: Sequences, rows_at_once: int = 1024) -> np.ndarray:
    """(N,): a hash of the tokens of each sequence, as a model reads them."""
    hashes = []
    powers = np.cumprod(np.full(int(data.lengths.max(initial=1)), 0x9E3779B97F4A7C15, np.uint64), dtype=np.uint64)
    for first in range(0, len(data), rows_at_once):
        tokens, lengths = (each.numpy() for each in data.pad(np.arange(first, min(first + rows_at_once, len(data)))))
        time = tokens.shape[1]
        terms = (tokens + 1).astype(np.uint64) * powers[:time] * (np.arange(time) < lengths[:, None])
        hashes.append(terms.sum(axis=1, dtype=np.uint64))
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)


def shared_sequences(sets: Mapping[str, Sequences], what: str = "texts") -> Iterator[str]:
    """Notes about held-out sequences that a model also reads in training."""
    return shared_with_training(
        {use: fingerprints(data) for use, data in sets.items()}, what, "as the model reads them"
    )


class Examples(Sequences, Mixes):
    """A dataset of single examples."""

    @abstractmethod
    def batch(self, rows: np.ndarray) -> Any: ...

    def sampler(self, spec: TrainSpec) -> ExampleSampler:
        order = self.order(spec)
        return ExampleSampler(self.lengths, spec.batch_size, spec.batch_tokens, spec.seed, self.packed, order)

    @property
    def weights(self) -> np.ndarray:
        """Each example counts 1."""
        return np.ones(len(self))

    def weight_of_step(self, spec: TrainSpec) -> int:
        return spec.batch_size  # or fewer, with train.batch_tokens

    def longest(self) -> Batch:
        return self.batch(np.array([int(self.lengths.argmax())]))

    def batches(self, rows: int = 256, tokens: int = 1 << 15) -> Iterator[tuple[np.ndarray, Any]]:
        """All rows in batches, bucketed by length; each batch comes with its rows."""
        order = np.argsort(self.lengths, kind="stable")
        for bucket in buckets(order, self.lengths, rows, tokens):
            yield bucket, self.batch(bucket)


@dataclass(frozen=True, kw_only=True)
class LabelledSequences(Examples):
    labels: np.ndarray  # (N,)

    @classmethod
    def of(cls, rows: list[np.ndarray], labels: Sequence[int] | None = None, prefix: int | None = None) -> Self:
        """Without labels, all are 0."""
        numbers = np.zeros(len(rows), np.int64) if labels is None else np.asarray(labels, dtype=np.int64)
        return cls.join(rows, labels=numbers, prefix=prefix)

    def take(self, rows: np.ndarray) -> Self:
        return replace(super().take(rows), labels=self.labels[rows])

    def batch(self, rows: np.ndarray) -> LabelledBatch | PackedLabelledBatch:
        labels = torch.from_numpy(self.labels[rows])
        if self.packed:
            row, cu_seqlens, longest = self.pack(rows)
            return PackedLabelledBatch(row, labels, cu_seqlens=cu_seqlens, max_seqlen=longest)
        inputs, lengths = self.pad(rows)
        return LabelledBatch(inputs, labels, None if bool((lengths == inputs.shape[1]).all()) else lengths)


@dataclass(frozen=True, kw_only=True)
class Completions(Examples):
    """Prompts with their completions. Only the completions count in the loss."""

    prompt_sizes: np.ndarray  # (N,): length of each prompt

    @classmethod
    def of(cls, rows: list[np.ndarray], prompt_sizes: list[int], packed: bool = False) -> Self:
        return cls.join(rows, prompt_sizes=np.asarray(prompt_sizes, dtype=np.int64), packed=packed)

    def take(self, rows: np.ndarray) -> Self:
        return replace(super().take(rows), prompt_sizes=self.prompt_sizes[rows])

    def batch(self, rows: np.ndarray) -> NextTokenBatch | PackedTokenBatch:
        """Each target is the next token; it counts if it is part of the completion."""
        prompt_sizes = torch.from_numpy(self.prompt_sizes[rows])
        if self.packed:
            row, cu_seqlens, longest = self.pack(rows)
            positions = completion_positions(Packing(cu_seqlens, longest), prompt_sizes)
            targets = row[0, positions + 1]
            return PackedTokenBatch(row, targets, cu_seqlens=cu_seqlens, max_seqlen=longest, logit_positions=positions)
        inputs, lengths = self.pad(rows)
        positions = torch.arange(1, inputs.shape[1])
        weights = (positions >= prompt_sizes[:, None]) & (positions < lengths[:, None])
        return NextTokenBatch(inputs[:, :-1], inputs[:, 1:], lengths - 1, weights)

    def prompts(self, rows: np.ndarray) -> list[list[int]]:
        chosen = self.take(rows)
        return replace(chosen, sizes=chosen.prompt_sizes).lists()


def completion_positions(packing: Packing, prompt_sizes: Tensor) -> Tensor:
    """(K,): the positions in a packed row at which the tokens of the completions are predicted."""
    time = int(packing.cu_seqlens[-1])
    owners, following = packing.owners(time), packing.positions(time) + 1
    predicts = (following >= prompt_sizes[owners]) & (following < packing.lengths[owners])
    return predicts.nonzero()[:, 0]
