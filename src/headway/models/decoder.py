"""A decoder: a token may look at itself and earlier ones, and, if its blocks have cross attention, at a memory."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from headway.models.stack import Stack
from headway.nn.context import Context, refuse_looking_ahead
from headway.nn.masks import over_keys, real_tokens, same_document
from headway.nn.packing import Packing
from headway.nn.state import State


class Decoder(nn.Module):
    def __init__(self, embedding: nn.Module, stack: Stack, head: nn.Module):
        super().__init__()
        self.embedding, self.stack, self.head = embedding, stack, head
        refuse_looking_ahead(self)

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor | None = None,
        memory_real: Tensor | None = None,
        documents: Tensor | None = None,
        state: State | None = None,
        logit_positions: Tensor | None = None,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
    ) -> Tensor:
        """(B, T) tokens to (B, T, V) scores of the token that comes next; or to (N, V), of the N tokens that ``wanted``
        (B, T) says True of, or (N,) counts, row behind row.

        Padding at the end of a row needs no mask: no earlier token may look at it. ``documents`` (B, T) numbers the
        document that each token is of: no token learns of another document. With a ``state``, the tokens go on from it.
        With a ``packing``, there is one row of sequences, and one of what they look at.
        """
        mask = None if documents is None else same_document(documents)
        context = Context(
            causal=True,
            no_empty_rows=True,  # everybody sees themselves
            mask=mask,
            memory=memory,
            memory_mask=over_keys(memory_real),
            documents=documents,
            packing=packing,
            memory_packing=memory_packing,
        )
        if state is None:
            states = self.states(tokens, context)
            return self.head(states if logit_positions is None else states.flatten(0, 1)[logit_positions.flatten()])
        logits = self.head(self.states(tokens, going_on(context, state, tokens.shape[1])))
        state.advance(tokens.shape[1])
        return logits

    @property
    def is_recurrent(self) -> bool:
        return self.stack.is_recurrent

    def begin(self, rows: int, room: int) -> State:
        """A state for rows that may come to have ``room`` tokens each."""
        self.stack.position.refuse_beyond(room)
        return State(rows, room, next(self.parameters()).device)

    def step(self, tokens: Tensor, state: State, new: Tensor | None = None) -> tuple[Tensor, State]:
        """The scores (B, V) of what follows the last of the tokens (B, T), and the state after them.

        ``new`` (B,) says how many of the tokens of a row are real, if not all are; the rest is padding behind them.
        """
        states = self.states(tokens, self.seeing(state, tokens.shape[1], new))
        rows = torch.arange(len(tokens), device=tokens.device)
        last = states[:, -1] if new is None else states[rows, new - 1]
        return self.head(last).float(), state.advance(tokens.shape[1], new)

    def seeing(self, state: State, time: int, new: Tensor | None) -> Context:
        """What the next tokens of each row look at."""
        return going_on(Context(causal=True, no_empty_rows=True, new=new), state, time)

    def read(self, tokens: Tensor, packing: Packing) -> Tensor:
        """The states (1, N, D) of one row of sequences."""
        return self.states(tokens, Context(causal=True, no_empty_rows=True, packing=packing))

    def states(self, tokens: Tensor, context: Context) -> Tensor:
        return self.stack(self.embedding(tokens, context=context), context)


class PrefixDecoder(Decoder):
    """One that has learned from beginnings whose tokens see each other: those of a prompt do."""

    def seeing(self, state: State, time: int, new: Tensor | None) -> Context:
        context = super().seeing(state, time, new)
        if state.longest > 0:
            return context
        return replace(context, causal=False, mask=None if new is None else over_keys(real_tokens(new, time)))


def going_on(context: Context, state: State, time: int) -> Context:
    """The context of tokens that go on from a state."""
    mask = state.open(time)
    if state.memory is not None:
        context = replace(context, memory=state.memory, memory_mask=state.memory_mask)
    return replace(context, state=state, causal=mask is None and time > 1, mask=mask)
