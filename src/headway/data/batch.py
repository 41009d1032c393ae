"""Batches: the aligned tensors that one step reads, a class for each shape of data.

Rows of different lengths are padded at the end here, or packed into one row without padding in data/packed_batch.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.packing import Packing


@dataclass(frozen=True)
class Batch(ABC):
    inputs: Tensor  # (B, T) tokens
    targets: Tensor

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.inputs)

    @property
    def count(self) -> int:
        """The number of targets that count: what the summed loss is divided by."""
        return self.targets.numel()

    @property
    def tokens(self) -> int:
        """The number of tokens without padding."""
        return self.inputs.numel()

    @property
    def tensors(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def to(self, device: torch.device) -> Self:
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in self.tensors.items()})

    @abstractmethod
    def take(self, rows: Tensor | slice) -> Self:
        """These sequences alone."""

    def rounded(self) -> Self:
        """With more padding, if possible, so that CUDA graphs have fewer shapes to record."""
        return self

    def split(self, parts: int) -> list[Self]:
        """The sequences in at most this many parts."""
        return [self.take(rows) for rows in torch.arange(len(self)).tensor_split(min(parts, len(self)))]

    def without_waste(self) -> list[Self]:
        """Split into parts where that saves a CPU more padding than the extra calls cost."""
        return [self]


@dataclass(frozen=True)
class PaddedBatch(Batch):
    lengths: Tensor | None = None  # (B,) real tokens in each row; None: all of them

    padded: ClassVar[dict[str, set[str]]] = {"lengths": {"inputs"}}  # which tensors have rows of these lengths

    @property
    def tokens(self) -> int:
        return self.inputs.numel() if self.lengths is None else int(self.lengths.sum())

    @property
    def room(self) -> int:
        """The number of tokens, padding included."""
        return self.inputs.numel()

    def take(self, rows: Tensor | slice) -> Self:
        """Trimmed to the longest of the rows."""
        taken = {name: tensor[rows] for name, tensor in self.tensors.items()}
        for own, names in self.padded.items():
            if own not in taken:
                continue
            lengths = taken[own]
            longest = max(int(lengths.max()), 1)
            taken |= {name: taken[name][:, :longest] for name in names & taken.keys()}
            taken[own] = None if int(lengths.min()) == longest else lengths
        return replace(self, **taken)

    def split(self, parts: int) -> list[Self]:
        """Group rows of similar length."""
        if self.lengths is None:
            return super().split(parts)
        return [self.take(rows) for rows in self.lengths.argsort(stable=True).tensor_split(min(parts, len(self)))]

    def without_waste(self) -> list[Self]:
        pays = self.room > 8_000 and self.tokens < 0.9 * self.room
        return self.split(4) if pays else [self]


@dataclass(frozen=True)
class LabelledBatch(PaddedBatch):
    """Targets are (B,) classes."""

    @property
    def model_inputs(self) -> tuple[Tensor, Tensor | None, Packing | None]:
        return self.inputs, self.lengths, None


@dataclass(frozen=True)
class NextTokenBatch(PaddedBatch):
    """Targets are (B, T): the token that follows each input."""

    weights: Tensor | None = None  # (B, T) which targets count; None: all of them
    documents: Tensor | None = None  # (B, T) document of each token; None: there is one
    carries: bool = False  # whether recurrent state is carried from batch to batch
    fresh: bool = True  # whether that state starts from zero here

    padded: ClassVar[dict[str, set[str]]] = {"lengths": {"inputs", "targets", "weights", "documents"}}

    @property
    def count(self) -> int:
        return self.targets.numel() if self.weights is None else int(self.weights.sum())

    def rounded(self, time: int = 8, rows: int = 32) -> Self:
        """Padded to multiples of these sizes; an added row has one token, which does not count."""
        if self.lengths is None or self.weights is None:
            return self
        missing, tensors = -len(self) % rows, self.with_all_lengths().tensors
        for name, tensor in tensors.items():
            wider = -tensor.shape[1] % time if tensor.ndim > 1 else 0
            sides = (0, wider, 0, missing) if tensor.ndim > 1 else (0, missing)
            tensors[name] = F.pad(tensor, sides, value=int(name in self.padded))
        return replace(self, **tensors)

    def with_all_lengths(self) -> Self:
        return self


@dataclass(frozen=True, kw_only=True)
class PairBatch(NextTokenBatch):
    """Inputs and targets of a decoder, and the source that its encoder reads."""

    sources: Tensor  # (B, S) tokens
    source_lengths: Tensor | None = None  # (B,) real tokens in each source; None: all of them

    padded: ClassVar[dict[str, set[str]]] = NextTokenBatch.padded | {"source_lengths": {"sources"}}

    @property
    def tokens(self) -> int:
        sources = self.sources.numel() if self.source_lengths is None else int(self.source_lengths.sum())
        return super().tokens + sources

    @property
    def room(self) -> int:
        return super().room + self.sources.numel()

    def with_all_lengths(self) -> Self:
        if self.source_lengths is not None:
            return self
        return replace(self, source_lengths=torch.full((len(self),), self.sources.shape[1]))
