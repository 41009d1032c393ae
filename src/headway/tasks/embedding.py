"""Vectors of texts: the mean of the hidden states of a text's tokens in the last layer."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.data.samplers import buckets
from headway.data.sequences import Sequences
from headway.nn.masks import real_tokens
from headway.tasks.abilities import Embeds
from headway.text.tokenizer import Tokenizer

ROWS, TOKENS = 256, 1 << 15  # of a batch


class Body(Protocol):
    """An encoder or a decoder without its head."""

    def hidden_states(self, tokens: Tensor, lengths: Tensor) -> Tensor: ...


class EmbedsTokens(Embeds):
    """For tasks with a tokenizer."""

    @property
    @abstractmethod
    def context_length(self) -> int: ...

    @abstractmethod
    def tokenizer_of(self, side: str) -> Tokenizer: ...

    def body(self, model: Any) -> Body:
        """The part of the model whose states are the vectors."""
        return model.encoder

    def tokens_in(self, text: str) -> list[str]:
        tokenizer = self.tokenizer_of("encoder.embedding")
        return [tokenizer.decode([token]) for token in tokenizer.encode([text])[0].tolist()[: self.context_length]]

    def embed(self, model: Any, texts: Sequence[str]) -> np.ndarray:
        rows = self.tokenizer_of("encoder.embedding").encode(texts)
        empty = next((number for number, row in enumerate(rows, start=1) if not len(row)), None)
        if empty is not None:
            raise Problem(f"text {empty} is empty, or has no known token: it has no vector")
        device = next(model.parameters()).device
        return mean_states(self.body(model), Sequences.join(rows).truncate(self.context_length), device)


@torch.inference_mode()
def mean_states(body: Body, data: Sequences, device: torch.device) -> np.ndarray:
    """(N, D)"""
    vectors: list[Any] = [None] * len(data)
    for rows in buckets(np.argsort(data.lengths, kind="stable"), data.lengths, ROWS, TOKENS):
        tokens, lengths = (tensor.to(device) for tensor in data.pad(rows))
        real = real_tokens(lengths, tokens.shape[1])[..., None]
        states = body.hidden_states(tokens, lengths).float() * real
        for row, vector in zip(rows, (states.sum(dim=1) / lengths[:, None]).cpu().numpy(), strict=True):
            vectors[row] = vector
    return np.stack(vectors)
