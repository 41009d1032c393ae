"""What goes down the stack beside the activations: masks, positions, the encoder's output, decoding state.

A model makes one ``Context`` per forward pass, and every part reads what it needs. All fields are optional, so that any
part also works on a plain (batch, time, width) tensor.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.collectives import Axis
from headway.nn.packing import Packing
from headway.nn.state import State


def identity(heads: Tensor) -> Tensor:
    return heads


@dataclass(frozen=True)
class Context:
    """Masks are boolean and True means "may look"; ``None`` means no restriction."""

    real: Tensor | None = None  # (B, T), False at padding
    mask: Tensor | None = None  # broadcasts to (B, H, T, S)
    no_empty_rows: bool = False  # every query is known to have a key that it may look at
    causal: bool = False  # not part of the mask, so that fused kernels can skip half of the work
    rotate: Callable[[Tensor], Tensor] = identity  # rotary encoding of query and key heads
    bias: Tensor | None = None  # added to the attention scores, broadcasts to (B, H, T, S)
    memory: Tensor | None = None  # (B, S, D), the encoder's output
    memory_mask: Tensor | None = None  # broadcasts to (B, H, T, S)
    state: State | None = None  # decoding state of the tokens before these
    new: Tensor | None = None  # (B,) number of real tokens in this step; None: all are real
    documents: Tensor | None = None  # (B, T) document id of each token; None: one document
    packing: Packing | None = None  # sequence boundaries, if the batch is one packed row
    memory_packing: Packing | None = None  # sequence boundaries of a packed memory
    across: Axis | None = None  # the tokens are a slice of the sequence, of which each rank of this axis has one


NO_CONTEXT = Context()


def refuse_looking_ahead(model: nn.Module) -> None:
    """Called by a causal model when it is built, and by a part that receives a causal context."""
    for part in model.modules():
        if remedy := getattr(part, "looks_ahead", ""):
            name = type(part).__name__.lower()
            raise Problem(f"a {name} part looks ahead, which a causal model must not do: set {remedy}")


def refuse_documents(part: nn.Module, context: Context) -> None:
    """Called by parts that read neighbouring tokens regardless of document boundaries."""
    if context.documents is not None:
        name = type(part).__name__.lower()
        raise Problem(f"a {name} part cannot separate documents: set data.cross_document=true to read across them")
