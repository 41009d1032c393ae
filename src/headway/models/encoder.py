"""Encoders, in which a token may look at all others (or, if causal, at earlier ones), and classifiers on them."""

from torch import Tensor, nn

from headway.models.stack import Stack
from headway.nn.context import Context, refuse_looking_ahead
from headway.nn.dropout import drop, drop_tokens
from headway.nn.embedding import Embedding
from headway.nn.masks import over_keys, real_tokens
from headway.nn.packing import Packing


class Encoder(nn.Module):
    def __init__(self, embedding: Embedding, stack: Stack, token_dropout: float = 0.0, causal: bool = False):
        super().__init__()
        self.embedding, self.stack, self.token_dropout, self.causal = embedding, stack, token_dropout, causal
        if causal:
            refuse_looking_ahead(self)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        packing: Packing | None = None,
        added: Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, T) to states (B, T, D). ``lengths`` (B,) is the number of real tokens of each row (default: all);
        with a ``packing``, the batch is one row of packed sequences; ``added`` (B, T, D) goes to the embeddings."""
        real = None if lengths is None else real_tokens(lengths, tokens.shape[1])
        kept = drop_tokens(real, tokens, self.token_dropout, self.training)
        context = Context(real=real, mask=over_keys(real), causal=self.causal, packing=packing)
        embedded = self.embedding(tokens, kept, context)
        return self.stack(embedded if added is None else embedded + added, context)

    hidden_states = forward


class Classifier(nn.Module):
    """Encodes a sequence, pools its states into one vector, and maps it to the logits of the classes."""

    def __init__(self, encoder: Encoder, pooling: nn.Module, head: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.encoder, self.pooling, self.head, self.dropout = encoder, pooling, head, dropout

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """Tokens (B, T) to logits (B, C); with a ``packing``, logits for each packed sequence."""
        return self.head(drop(self.pooled(tokens, lengths, packing), self.dropout, self.training))

    def pooled(self, tokens: Tensor, lengths: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """A vector (B, D) for each sequence."""
        states = self.encoder(tokens, lengths, packing)
        real = None if lengths is None else real_tokens(lengths, tokens.shape[1])
        if packing is not None:
            states, real = packing.pad(states), packing.real
        return self.pooling(states, real)
