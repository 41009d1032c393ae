"""A classifier of texts: a Transformer encoder in pre-norm, with learned positions and mean pooling.

Shapes: B batch, T tokens, D width, H heads, K width of a head, C classes. masks are True where a token is real.
"""

import math

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, H, T, K)."""
        return x.view(x.shape[0], x.shape[1], self.heads, self.head_width).transpose(1, 2)

    def weights(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_width)
        scores = scores.masked_fill(~mask[:, None, None, :], -1e9)
        return scores.softmax(dim=-1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        mixed = self.weights(query, key, mask) @ value
        return self.output(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(torch.relu(self.inner(x)))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.attention = Attention(width, heads)
        self.feedforward = FeedForward(width, hidden)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + self.attention(self.first_norm(x), mask)

    def feed(self, x: Tensor) -> Tensor:
        return x + self.feedforward(self.second_norm(x))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.feed(self.attend(x, mask))


class Classifier(nn.Module):
    def __init__(self, vocabulary: int, longest: int, width: int, heads: int, layers: int, classes: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def embed(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        return self.tokens(tokens) + self.positions(places)

    def encode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        total = (states * mask[..., None]).sum(dim=1)
        return total / mask.sum(dim=1, keepdim=True)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.pool(self.encode(tokens, mask), mask))
