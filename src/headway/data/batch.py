"""A batch: aligned tensors, padded where the rows differ in length; or one row of sequences, and no padding."""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.packing import Packing
from headway.objectives.likelihood import UNCOUNTED

ROOM = 1024  # a row of sequences with a class each is padded to a multiple of so many tokens
OWN_LENGTHS = {  # which tensors have rows of these lengths
    "lengths": {"inputs", "targets", "weights", "documents"},
    "source_lengths": {"sources"},
}


@dataclass(frozen=True)
class Batch:
    inputs: Tensor  # (B, T) tokens
    targets: Tensor  # (B,) classes, or (B, T) tokens
    lengths: Tensor | None = None  # (B,) real tokens in each row; None: all of them
    weights: Tensor | None = None  # (B, T) which of the targets count; None: all of them
    documents: Tensor | None = None  # (B, T) which document a token is of; None: nobody asks
    sources: Tensor | None = None  # (B, S) tokens of what the targets are a translation of,
    source_lengths: Tensor | None = None  # (B,) of which so many are real; None: all of them
    ends: Tensor | None = None  # (n + 1,) if inputs are one row (1, N) of sequences: 0, and where each of them ends;
    source_ends: Tensor | None = None  # of sources likewise
    longest: int = 0  # then: no sequence has more tokens than this
    places: Tensor | None = None  # (K,) the tokens of the row that targets (K,) are for; None: they are the sequences'
    prefixes: Tensor | None = None  # (n,) how many tokens of each sequence see each other, in a causal model
    labels: Tensor | None = None  # (n,) classes of the sequences, beside the targets
    fresh: bool = True  # whether it begins anew, or goes on from where the batch before it ended

    def __len__(self) -> int:
        """How many sequences there are."""
        return len(self.inputs) if self.ends is None else len(self.ends) - 1

    @property
    def count(self) -> int:
        """What the loss over this batch is divided by."""
        return self.targets.numel() if self.weights is None else int(self.weights.sum())

    @property
    def tokens(self) -> int:
        """How many are real."""
        inputs = self.inputs.numel() if self.lengths is None else int(self.lengths.sum())
        if self.sources is None:
            return inputs
        return inputs + (self.sources.numel() if self.source_lengths is None else int(self.source_lengths.sum()))

    @property
    def packing(self) -> Packing | None:
        return None if self.ends is None else Packing(self.ends, self.longest, self.prefixes)

    @property
    def source_packing(self) -> Packing | None:
        return None if self.source_ends is None else Packing(self.source_ends, self.longest)

    def to(self, device: torch.device) -> Self:
        return replace(self, **{name: each.to(device, non_blocking=True) for name, each in self.tensors.items()})

    @property
    def tensors(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if isinstance(each, Tensor)}

    def take(self, rows: Tensor | slice) -> "Batch":
        """Some of the rows, cut to the longest of them."""
        if self.ends is not None:
            return self.take_sequences(rows)
        taken = {name: each[rows] for name, each in self.tensors.items()}
        for own, shorter in OWN_LENGTHS.items():
            if own not in taken:
                continue
            lengths = taken[own]
            longest = max(int(lengths.max()), 1)
            for name in shorter & taken.keys():
                taken[name] = taken[name][:, :longest] if taken[name].ndim > 1 else taken[name]
            taken[own] = None if int(lengths.min()) == longest else lengths
        return replace(self, **taken)

    def take_sequences(self, rows: Tensor | slice) -> "Batch":
        """Some of the sequences of the one row; in the order in which they stand there."""
        assert self.ends is not None
        wanted = torch.zeros(len(self), dtype=torch.bool)
        wanted[rows] = True
        taken: dict[str, Any] = {}
        for tokens, ends in (("inputs", "ends"), ("sources", "source_ends")):
            if ends in self.tensors:
                sizes = self.tensors[ends].diff()
                taken[tokens] = self.tensors[tokens][:, wanted.repeat_interleave(sizes)]
                taken[ends] = F.pad(sizes[wanted].cumsum(0), (1, 0)).to(torch.int32)
        of_each = {"prefixes", "labels"} if self.places is not None else {"prefixes", "labels", "targets"}
        taken |= {name: self.tensors[name][wanted] for name in of_each & self.tensors.keys()}
        if self.places is not None:
            there = wanted.repeat_interleave(self.ends.diff())
            counted = there[self.places]
            taken["targets"] = self.targets[counted]
            taken["places"] = (there.cumsum(0) - 1)[self.places[counted]]
        return replace(self, **taken)

    def rounded(self, time: int = 8, rows: int = 32) -> "Batch":
        """With more padding, up to multiples of these sizes, so that there are fewer shapes; where it is known what is
        padding: in batches of tokens with weights. A row of sequences gets empty ones behind its last; if they have a
        class each, one of padding as well, and no class counts for these."""
        if self.ends is not None and self.labels is None and self.prefixes is None and self.places is not None:
            more = -len(self.ends) % (2 * rows)
            return replace(self, ends=torch.cat([self.ends, self.ends[-1:].expand(more)]))
        if self.ends is not None and self.places is None and self.targets.ndim == 1:
            room = -self.inputs.shape[1] % min(self.longest, ROOM)
            more = -(len(self.ends) + 1) % rows
            ends = torch.cat([self.ends, (self.ends[-1:] + room).expand(1 + more)])
            targets = F.pad(self.targets, (0, 1 + more), value=UNCOUNTED)
            return replace(self, inputs=F.pad(self.inputs, (0, room)), ends=ends, targets=targets)
        if self.lengths is None or self.weights is None:
            return self
        found = dict(self.tensors)
        if self.sources is not None:
            found.setdefault("source_lengths", torch.full((len(self),), self.sources.shape[1]))
        missing = -len(self) % rows
        for name, tensor in found.items():
            wider = -tensor.shape[1] % time if tensor.ndim > 1 else 0
            sides = (0, wider, 0, missing) if tensor.ndim > 1 else (0, missing)
            found[name] = F.pad(tensor, sides, value=int(name in OWN_LENGTHS))  # an empty row has one token
        return replace(self, **found)

    def split(self, parts: int) -> list["Batch"]:
        """All rows in up to this many parts, rows of like length together."""
        order = torch.arange(len(self)) if self.lengths is None else self.lengths.argsort(stable=True)
        return [self.take(rows) for rows in order.tensor_split(min(parts, len(self)))]

    def without_waste(self) -> list["Batch"]:
        """In parts of like length where that spares a CPU so much padding that it pays for the extra calls."""
        size = self.inputs.numel() + (0 if self.sources is None else self.sources.numel())
        pays = size > 8_000 and self.tokens < 0.9 * size
        return self.split(4) if pays else [self]
