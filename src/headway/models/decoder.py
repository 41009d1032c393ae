"""Decoders: causal attention over the tokens and, if the blocks have cross attention, attention to a memory."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from headway.models.stack import Stack
from headway.nn.context import Context, refuse_looking_ahead
from headway.nn.masks import over_keys, real_tokens, same_document
from headway.nn.packing import Packing
from headway.nn.state import State


class Decoder(nn.Module):
    shares_prefixes = True  # what it computes for a token depends on the tokens before it alone

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
        """Tokens (B, T) to next-token logits (B, T, V). ``logit_positions``, a mask (B, T) or indices (N,) into the
        flattened tokens, restricts them to (N, V).

        Padding at the end of a row needs no mask, since attention is causal. ``documents`` (B, T) are document ids:
        tokens see only their own document. With a ``state``, the tokens continue from it. With a ``packing``, tokens
        and memory are one row of packed sequences each.
        """
        mask = None if documents is None else same_document(documents)
        context = Context(
            causal=True,
            no_empty_rows=True,  # every token sees itself
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
        logits = self.head(self.states(tokens, with_state(context, state, tokens.shape[1])))
        state.advance(tokens.shape[1])
        return logits

    @property
    def is_recurrent(self) -> bool:
        return self.stack.is_recurrent

    def begin(self, rows: int, room: int) -> State:
        """An empty state for rows of up to ``room`` tokens."""
        self.stack.position.refuse_beyond(room)
        return State(rows, room, next(self.parameters()).device)

    def step(self, tokens: Tensor, state: State, new: Tensor | None = None) -> tuple[Tensor, State]:
        """The logits (B, V) after the last token of each row (B, T), and the state after it.

        ``new`` (B,) is the number of real tokens of each row, followed by padding; None: all are real.
        """
        states = self.states(tokens, self.step_context(state, tokens.shape[1], new))
        rows = torch.arange(len(tokens), device=tokens.device)
        last = states[:, -1] if new is None else states[rows, new - 1]
        return self.head(last).float(), state.advance(tokens.shape[1], new)

    def step_context(self, state: State, time: int, new: Tensor | None) -> Context:
        return with_state(Context(causal=True, no_empty_rows=True, new=new), state, time)

    def read(self, tokens: Tensor, packing: Packing) -> Tensor:
        """The states (1, N, D) of a row of packed sequences."""
        return self.states(tokens, Context(causal=True, no_empty_rows=True, packing=packing))

    def hidden_states(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The states (B, T, D) of rows of tokens; padding at the end changes nothing, since attention is causal."""
        return self.states(tokens, Context(causal=True, no_empty_rows=True))

    def states(self, tokens: Tensor, context: Context) -> Tensor:
        return self.stack(self.embedding(tokens, context=context), context)


class PrefixDecoder(Decoder):
    """A prefix language model: the tokens of a prompt all see each other."""

    shares_prefixes = False

    def step_context(self, state: State, time: int, new: Tensor | None) -> Context:
        context = super().step_context(state, time, new)
        if state.longest > 0:
            return context
        return replace(
            context, causal=False, mask=None if new is None else over_keys(real_tokens(new, state.end(time)))
        )


def with_state(context: Context, state: State, time: int) -> Context:
    """The context of the next ``time`` tokens after a state."""
    mask = state.allocate(time)
    if state.memory is not None:
        context = replace(context, memory=state.memory, memory_mask=state.memory_mask)
    return replace(context, state=state, causal=mask is None and time > 1, mask=mask)
