"""What goes down the stack beside the activations.

A model makes one ``Context`` at its door and every part reads what it needs from it. Each field may be left out, so
that any part also works alone on a plain (batch, time, width) tensor.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.packing import Packing
from headway.nn.state import State


def identity(heads: Tensor) -> Tensor:
    return heads


@dataclass(frozen=True)
class Context:
    """Masks are boolean and mean "may look"; ``None`` means that everything may be looked at."""

    real: Tensor | None = None  # (B, T), False at padding
    mask: Tensor | None = None  # broadcasts to (B, H, T, S)
    no_empty_rows: bool = False  # whether it is known that everybody may look at something
    causal: bool = False  # nobody looks at later positions: apart from the mask, so that fused kernels can skip work
    rotate: Callable[[Tensor], Tensor] = identity  # what the position encoding does to query and key heads
    bias: Tensor | None = None  # what it adds to the scores, broadcasts to (B, H, T, S)
    memory: Tensor | None = None  # (B, S, D), the encoder's output, for cross attention
    memory_mask: Tensor | None = None  # broadcasts to (B, H, T, S)
    state: State | None = None  # what was there before these tokens, in decoding
    new: Tensor | None = None  # (B,) how many of these tokens are real; None: all of them
    documents: Tensor | None = None  # (B, T) which document a token is of; None: all of them are of one
    packing: Packing | None = None  # if the batch is one row of sequences: where they begin and end,
    memory_packing: Packing | None = None  # and the memory likewise


ALONE = Context()


def refuse_looking_ahead(model: nn.Module) -> None:
    """A causal model calls this on itself when it is made, a part when it meets a causal context."""
    for part in model.modules():
        if remedy := getattr(part, "looks_ahead", ""):
            name = type(part).__name__.lower()
            raise Problem(f"a {name} part looks ahead, which a causal model must not: set {remedy}")


def refuse_documents(part: nn.Module, context: Context) -> None:
    """What a part that reads the tokens before a token, whatever they are, calls first."""
    if context.documents is not None:
        name = type(part).__name__.lower()
        raise Problem(f"a {name} part cannot tell documents apart: set data.cross_document=true, which lets it read on")
