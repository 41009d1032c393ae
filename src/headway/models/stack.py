"""The trunk of every model: a list of blocks that share one position encoding."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.errors import BadSetting
from headway.nn.block import NoNorm
from headway.nn.collectives import Axis, gathered, own, shared
from headway.nn.context import NO_CONTEXT, Context
from headway.nn.dropout import drop
from headway.nn.masks import over_keys, within_documents
from headway.nn.positions import Position
from headway.nn.recurrent import Recurrent


class Stack(nn.Module):
    def __init__(
        self,
        blocks: Iterable[nn.Module],
        position: Position | None = None,
        norm: nn.Module | None = None,  # after the last block, as pre-norm needs
        dropout: float = 0.0,  # on the embeddings
        first_norm: nn.Module | None = None,  # of the embeddings, after adding positions
    ):
        super().__init__()
        self.position = position or Position()
        self.dropout = dropout
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.first_norm = norm or NoNorm(), first_norm or NoNorm()
        self.across: Axis | None = None

    @property
    def is_recurrent(self) -> bool:
        """Whether decoding keeps a recurrent hidden state."""
        return any(isinstance(part, Recurrent) for part in self.modules())

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        self.position.refuse_beyond(x.shape[1] if context.packing is None else context.packing.max_seqlen)
        positions = token_positions(x, context)
        x = self.first_norm(self.position.embed(x, positions))
        if self.across is not None and context.state is None:
            return self.sliced(x, positions, context, self.across)
        x = drop(x, self.dropout, self.training)
        bias = self.position.bias(*bias_positions(positions, context))
        context = replace(context, rotate=self.position.rotate(positions), bias=bias)
        for block in self.blocks:
            x = block(x, context)
        return self.norm(x)

    def share_tokens(self, axis: Axis) -> list[Tensor]:
        """From now on, each rank computes a slice of each sequence; returns the weights of which each rank has a share
        of the gradient."""
        for part in self.blocks.modules():
            sublayer = getattr(part, "sublayer", None)
            if sublayer is not None and not getattr(sublayer, "keeps_slices", False):
                name = type(sublayer).__name__.lower()
                raise BadSetting("train.parallel", f"a {name} part cannot read a sequence in slices: leave context out")
        self.across = axis
        return list(self.blocks.parameters())

    def sliced(self, x: Tensor, positions: Tensor, context: Context, axis: Axis) -> Tensor:
        if context.packing is not None:
            raise BadSetting("train.parallel", "packed batches cannot be read in slices: leave context out")
        time = x.shape[1]
        missing = -time % axis.size
        x, positions = F.pad(x, (0, 0, 0, missing)), F.pad(positions, (0, missing))
        context = padded(context, len(x), time, missing, x.device)
        bias = self.position.bias(positions, positions)
        context = replace(
            context,
            across=axis,
            rotate=self.position.rotate(axis.slice(positions, -1)),
            bias=None if bias is None else shared(bias, axis),
            real=None if context.real is None else axis.slice(context.real, 1),
            memory=None if context.memory is None else shared(context.memory, axis),
        )
        x = drop(own(x, axis, 1), self.dropout, self.training)
        for block in self.blocks:
            x = block(x, context)
        return self.norm(gathered(x, axis, 1)[:, :time])


def padded(context: Context, rows: int, time: int, missing: int, device: torch.device) -> Context:
    """With tokens at the end at which no other token looks."""
    if not missing:
        return context
    exists = (torch.arange(time + missing, device=device) < time).expand(rows, -1)
    real = exists if context.real is None else F.pad(context.real, (0, missing))
    mask = context.mask
    if mask is None:
        mask = None if context.causal else over_keys(exists)
    else:
        mask = F.pad(mask, (0, missing, 0, missing if mask.shape[-2] > 1 else 0))
    return replace(context, real=real, mask=mask, no_empty_rows=context.no_empty_rows and mask is None)


def token_positions(x: Tensor, context: Context) -> Tensor:
    """(T,), or (B, T) if they differ between rows."""
    if context.state is not None:
        return context.state.positions(x.shape[1])
    if context.packing is not None:
        return context.packing.positions(x.shape[1])
    if context.documents is not None:
        return within_documents(context.documents)
    return torch.arange(x.shape[1], device=x.device)


def bias_positions(positions: Tensor, context: Context) -> tuple[Tensor, Tensor]:
    """Query and key positions of the attention bias; for packed sequences, those of the longest."""
    if context.state is not None:
        return context.state.query_key_positions(positions.shape[-1])
    if context.packing is not None:
        positions = torch.arange(context.packing.max_seqlen, device=positions.device)
    return positions, positions
