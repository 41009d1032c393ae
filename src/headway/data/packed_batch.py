"""Packed batches: sequences of any length, one after another in one row (1, N), without padding; see nn/packing."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.data.batch import Batch
from headway.nn.packing import Packing
from headway.objectives.likelihood import UNCOUNTED

ROUNDED_TO = 1024  # tokens of a row of labelled sequences


@dataclass(frozen=True, kw_only=True)
class PackedBatch(Batch):
    cu_seqlens: Tensor  # (n + 1,) 0, and the end of each sequence
    max_seqlen: int  # maximum tokens of a sequence

    rows_of: ClassVar[dict[str, str]] = {"inputs": "cu_seqlens"}  # packed tensors, and the ends of their sequences
    by_sequence: ClassVar[set[str]] = {"targets"}  # tensors with an entry for each sequence

    def __len__(self) -> int:
        return len(self.cu_seqlens) - 1

    @property
    def packing(self) -> Packing:
        return Packing(self.cu_seqlens, self.max_seqlen)

    def take(self, rows: Tensor | slice) -> Self:
        """In the order of the row."""
        chosen = torch.zeros(len(self), dtype=torch.bool)
        chosen[rows] = True
        taken: dict[str, Any] = {}
        for name, ends in self.rows_of.items():
            sizes = self.tensors[ends].diff()
            taken[name] = self.tensors[name][:, chosen.repeat_interleave(sizes)]
            taken[ends] = F.pad(sizes[chosen].cumsum(0), (1, 0)).to(torch.int32)
        taken |= {name: self.tensors[name][chosen] for name in self.by_sequence & self.tensors.keys()}
        return replace(self, **taken)


@dataclass(frozen=True, kw_only=True)
class PackedLabelledBatch(PackedBatch):
    """Targets are (n,) classes of the sequences."""

    @property
    def model_inputs(self) -> tuple[Tensor, Tensor | None, Packing | None]:
        return self.inputs, None, self.packing

    def rounded(self, rows: int = 32) -> Self:
        """Append a sequence of padding and empty ones; their classes do not count."""
        room = -self.inputs.shape[1] % min(self.max_seqlen, ROUNDED_TO)
        more = -(len(self.cu_seqlens) + 1) % rows
        cu_seqlens = torch.cat([self.cu_seqlens, (self.cu_seqlens[-1:] + room).expand(1 + more)])
        targets = F.pad(self.targets, (0, 1 + more), value=UNCOUNTED)
        return replace(self, inputs=F.pad(self.inputs, (0, room)), cu_seqlens=cu_seqlens, targets=targets)


@dataclass(frozen=True, kw_only=True)
class PackedTokenBatch(PackedBatch):
    """Targets are (K,) tokens, predicted at K positions of the row."""

    logit_positions: Tensor  # (K,)
    prefixes: Tensor | None = None  # (n,) length of the bidirectional prefix of each sequence, in a causal model
    sequence_labels: Tensor | None = None  # (n,) classes of the sequences, beside the targets

    by_sequence: ClassVar[set[str]] = {"prefixes", "sequence_labels"}

    @property
    def packing(self) -> Packing:
        return Packing(self.cu_seqlens, self.max_seqlen, self.prefixes)

    def take(self, rows: Tensor | slice) -> Self:
        chosen = torch.zeros(len(self), dtype=torch.bool)
        chosen[rows] = True
        taken = chosen.repeat_interleave(self.cu_seqlens.diff())
        counted = taken[self.logit_positions]
        positions = (taken.cumsum(0) - 1)[self.logit_positions[counted]]
        return replace(super().take(rows), targets=self.targets[counted], logit_positions=positions)

    def rounded(self, rows: int = 64) -> Self:
        """Append empty sequences."""
        if self.prefixes is not None or self.sequence_labels is not None:
            return self
        more = -len(self.cu_seqlens) % rows
        return replace(self, cu_seqlens=torch.cat([self.cu_seqlens, self.cu_seqlens[-1:].expand(more)]))


@dataclass(frozen=True, kw_only=True)
class PackedPairBatch(PackedTokenBatch):
    """With the sources of the sequences, packed likewise."""

    sources: Tensor  # (1, M) tokens
    source_cu_seqlens: Tensor  # (n + 1,)

    rows_of: ClassVar[dict[str, str]] = PackedBatch.rows_of | {"sources": "source_cu_seqlens"}

    @property
    def tokens(self) -> int:
        return self.inputs.numel() + self.sources.numel()

    @property
    def source_packing(self) -> Packing:
        return Packing(self.source_cu_seqlens, self.max_seqlen)
