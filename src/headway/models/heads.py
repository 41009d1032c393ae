"""What stands on a stack: a class for the sequence, or a score for every token of the vocabulary."""

from torch import Tensor, nn

from headway.models.encoder import Encoder
from headway.nn.dropout import drop
from headway.nn.embedding import Embedding
from headway.nn.masks import real_tokens
from headway.nn.packing import Packing


class Classifier(nn.Module):
    def __init__(self, encoder: Encoder, pooling: nn.Module, head: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.encoder, self.pooling, self.head, self.dropout = encoder, pooling, head, dropout

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """(B, T) tokens to (B, C) scores of the classes; with a ``packing``, of each sequence in the one row."""
        states = self.encoder(tokens, lengths, packing)
        real = None if lengths is None else real_tokens(lengths, tokens.shape[1])
        if packing is not None:
            states, real = packing.apart(states), packing.real
        return self.head(drop(self.pooling(states, real), self.dropout, self.training))


class TiedHead(nn.Module):
    """Scores by the embedding's own matrix (Press & Wolf 2017, https://arxiv.org/abs/1608.05859)."""

    def __init__(self, embedding: Embedding):
        super().__init__()
        self.embedding = embedding

    def forward(self, states: Tensor) -> Tensor:
        return self.embedding.scores(states)
