"""The trunk of every model: blocks one after another, with one position encoding for all of them."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from headway.nn.context import ALONE, Context
from headway.nn.dropout import drop
from headway.nn.masks import within_documents
from headway.nn.norms import NoNorm
from headway.nn.positions import Position
from headway.nn.recurrent import Recurrent


class Stack(nn.Module):
    def __init__(
        self,
        blocks: Iterable[nn.Module],
        position: Position | None = None,
        norm: nn.Module | None = None,  # after the last block: what pre-norm needs
        dropout: float = 0.0,  # on the embeddings
        first_norm: nn.Module | None = None,  # of the embeddings with their positions
    ):
        super().__init__()
        self.position = position or Position()
        self.dropout = dropout
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.first_norm = norm or NoNorm(), first_norm or NoNorm()

    @property
    def is_recurrent(self) -> bool:
        """Whether decoding it carries a hidden state along, and not what was read."""
        return any(isinstance(part, Recurrent) for part in self.modules())

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        self.position.refuse_beyond(x.shape[1] if context.packing is None else context.packing.max_seqlen)
        positions = places(x, context)
        x = drop(self.first_norm(self.position.embed(x, positions)), self.dropout, self.training)
        looking = looked_at(positions, context)
        context = replace(context, rotate=self.position.rotate(positions), bias=self.position.bias(*looking))
        for block in self.blocks:
            x = block(x, context)
        return self.norm(x)


def places(x: Tensor, context: Context) -> Tensor:
    """The positions of the tokens, (T,) or (B, T)."""
    if context.state is not None:
        return context.state.positions(x.shape[1])
    if context.packing is not None:
        return context.packing.positions(x.shape[1])
    if context.documents is not None:
        return within_documents(context.documents)
    return torch.arange(x.shape[1], device=x.device)


def looked_at(positions: Tensor, context: Context) -> tuple[Tensor, Tensor]:
    """The positions of queries and keys that a bias is for; of sequences in a row, those of the longest."""
    if context.state is not None:
        return context.state.looking(positions.shape[-1])
    if context.packing is not None:
        positions = torch.arange(context.packing.max_seqlen, device=positions.device)
    return positions, positions
