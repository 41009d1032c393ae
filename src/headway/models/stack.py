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


class Stack(nn.Module):
    def __init__(
        self,
        blocks: Iterable[nn.Module],
        position: Position | None = None,
        norm: nn.Module | None = None,  # after the last block: what pre-norm needs
        dropout: float = 0.0,  # on the embeddings
    ):
        super().__init__()
        self.position = position or Position()
        self.dropout = dropout
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm or NoNorm()

    def forward(self, x: Tensor, context: Context = ALONE) -> Tensor:
        queries, keys = places(x, context)
        x = drop(self.position.embed(x, queries), self.dropout, self.training)
        context = replace(context, turn=self.position.turn(queries), bias=self.position.bias(queries, keys))
        for block in self.blocks:
            x = block(x, context)
        return self.norm(x)


def places(x: Tensor, context: Context) -> tuple[Tensor, Tensor]:
    """The positions of the tokens, (T,) or (B, T), and of what they may look at."""
    if context.state is not None:
        return context.state.positions(x.shape[1]), context.state.keys(x.shape[1])
    positions = torch.arange(x.shape[1], device=x.device)
    if context.documents is not None:
        positions = within_documents(context.documents)
    return positions, positions
