"""The trunk of every model: a list of blocks that share one position encoding."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from headway.nn.block import NoNorm
from headway.nn.context import NO_CONTEXT, Context
from headway.nn.dropout import drop
from headway.nn.masks import within_documents
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

    @property
    def is_recurrent(self) -> bool:
        """Whether decoding keeps a recurrent hidden state."""
        return any(isinstance(part, Recurrent) for part in self.modules())

    def forward(self, x: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        self.position.refuse_beyond(x.shape[1] if context.packing is None else context.packing.max_seqlen)
        positions = token_positions(x, context)
        x = drop(self.first_norm(self.position.embed(x, positions)), self.dropout, self.training)
        bias = self.position.bias(*bias_positions(positions, context))
        context = replace(context, rotate=self.position.rotate(positions), bias=bias)
        for block in self.blocks:
            x = block(x, context)
        return self.norm(x)


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
