"""Pooling: from the states of a sequence (B, T, D) to one vector (B, D), ignoring padding.

- cls: the first token, which the task adds for this purpose (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)
- pooler: tanh(W h + b) of the first token, as in the published BERT
- last, mean, max: of the real tokens; zeros for an empty sequence
- attention: their weighted mean, by softmax(v . tanh(W h + b)) over the tokens (Bahdanau et al. 2015,
  https://arxiv.org/abs/1409.0473): additive attention with one learned query
"""

from typing import ClassVar

import torch
from torch import Tensor, nn


class Pooling(nn.Module):
    reads_first: ClassVar[bool] = False  # whether it needs a token of its own at the beginning

    def attention(self, states: Tensor, real: Tensor | None = None) -> Tensor | None:
        """(B, T): the weight of each token, if the pooling weighs them."""
        return None


class Cls(Pooling):
    reads_first = True

    def forward(self, states: Tensor, real: Tensor | None = None) -> Tensor:
        # learn: begin model.cls
        return states[:, 0]
        # learn: end


class Pooler(Pooling):
    reads_first = True

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(width, width)

    def forward(self, states: Tensor, real: Tensor | None = None) -> Tensor:
        return self.project(states[:, 0]).tanh()


class Last(Pooling):
    def forward(self, states: Tensor, real: Tensor | None = None) -> Tensor:
        # learn: begin model.last
        if real is None:
            return states[:, -1]
        ends = real.sum(dim=1).clamp(min=1) - 1
        return zero_empty(states[torch.arange(states.shape[0], device=states.device), ends], real)
        # learn: end


class Mean(Pooling):
    def forward(self, states: Tensor, real: Tensor | None = None) -> Tensor:
        # learn: begin model.mean
        if real is None:
            return states.mean(dim=1)
        total = states.masked_fill(~real[..., None], 0.0).sum(dim=1)
        return total / real.sum(dim=1, keepdim=True).clamp(min=1)
        # learn: end


class Maximum(Pooling):
    def forward(self, states: Tensor, real: Tensor | None = None) -> Tensor:
        if real is None:
            return states.amax(dim=1)
        masked = states.masked_fill(~real[..., None], torch.finfo(states.dtype).min)
        return zero_empty(masked.amax(dim=1), real)


class AdditiveAttention(Pooling):
    def __init__(self, width: int):
        super().__init__()
        self.project, self.score = nn.Linear(width, width), nn.Linear(width, 1, bias=False)

    def attention(self, states: Tensor, real: Tensor | None = None) -> Tensor:
        scores = self.score(self.project(states).tanh()).squeeze(-1)
        if real is not None:
            scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1)

    def forward(self, states: Tensor, real: Tensor | None = None) -> Tensor:
        if real is not None:
            states = states.masked_fill(~real[..., None], 0.0)
        return (self.attention(states, real)[:, None, :] @ states).squeeze(1)


def zero_empty(pooled: Tensor, real: Tensor) -> Tensor:
    """Zeros for rows without a real token, as mean pooling gives."""
    return pooled.masked_fill(~real.any(dim=1, keepdim=True), 0.0)


POOLINGS: dict[str, type[Pooling]] = {
    "cls": Cls,
    "pooler": Pooler,
    "mean": Mean,
    "max": Maximum,
    "last": Last,
    "attention": AdditiveAttention,
}
