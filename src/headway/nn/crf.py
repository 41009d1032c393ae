"""Heads of taggers: from the states of words to their tags.

- linear: each word by itself, p(y) = product over t of softmax(e[t])[y[t]]
- crf: a linear-chain conditional random field (Lafferty et al. 2001, https://dl.acm.org/doi/10.5555/645530.655813; on
  top of a network, Lample et al. 2016, https://arxiv.org/abs/1603.01360). Neighbouring tags have a score, too:

    score(y) = first[y[1]] + sum over t of e[t, y[t]] + sum over t of transitions[y[t - 1], y[t]] + last[y[n]]
    log p(y) = score(y) - log Z,  where Z is the sum of exp(score) over all sequences of tags

  The forward algorithm computes log Z, and Viterbi's the best sequence, in a number of steps that is linear in n. The
  probability of a tag at a word is the derivative of log Z with respect to its emission.

Emissions e are (B, T, C), and ``real`` (B, T) is True at the words of each row, of which there is at least one.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.objectives.tally import Tally

NEVER = -1e4  # the score of a transition that is not allowed


class Chain(NamedTuple):
    """The scores of a chain of tags."""

    transitions: Tensor  # (C, C), from the row to the column
    first: Tensor  # (C,)
    last: Tensor  # (C,)


def log_partition(emissions: Tensor, real: Tensor, chain: Chain) -> Tensor:
    """(B,): log Z, by the forward algorithm."""
    scores = chain.first + emissions[:, 0]  # of all beginnings that end with each tag
    for emission, is_real in zip(emissions[:, 1:].unbind(1), real[:, 1:].unbind(1), strict=True):
        longer = (scores[:, :, None] + chain.transitions).logsumexp(dim=1) + emission
        scores = torch.where(is_real[:, None], longer, scores)
    return (scores + chain.last).logsumexp(dim=1)


def path_score(emissions: Tensor, tags: Tensor, real: Tensor, chain: Chain) -> Tensor:
    """(B,): the score of each row's tags (B, T)."""
    own = emissions.gather(2, tags[..., None])[..., 0]
    pairs = chain.transitions[tags[:, :-1], tags[:, 1:]]
    ends = tags.gather(1, real.sum(dim=1, keepdim=True) - 1)[:, 0]
    total = torch.where(real, own, 0).sum(dim=1) + torch.where(real[:, 1:], pairs, 0).sum(dim=1)
    return total + chain.first[tags[:, 0]] + chain.last[ends]


def viterbi(emissions: Tensor, real: Tensor, chain: Chain) -> Tensor:
    """(B, T): the tags with the highest score; 0 at the padding."""
    scores, stay = chain.first + emissions[:, 0], torch.arange(emissions.shape[2], device=emissions.device)
    pointers = []  # for each tag, the best one before it
    for emission, is_real in zip(emissions[:, 1:].unbind(1), real[:, 1:].unbind(1), strict=True):
        best, before = (scores[:, :, None] + chain.transitions).max(dim=1)
        scores = torch.where(is_real[:, None], best + emission, scores)
        pointers.append(torch.where(is_real[:, None], before, stay))
    tags = [(scores + chain.last).argmax(dim=1)]
    for before in reversed(pointers):
        tags.append(before.gather(1, tags[-1][:, None])[:, 0])
    return torch.where(real, torch.stack(tags[::-1], dim=1), 0)


class LinearTags(nn.Module):
    """Each word by itself."""

    def __init__(self, width: int, tags: int):
        super().__init__()
        self.emissions = nn.Linear(width, tags)
        nn.init.zeros_(self.emissions.weight)  # all tags start equally likely
        nn.init.zeros_(self.emissions.bias)

    def forward(self, states: Tensor) -> Tensor:
        """States (B, T, D) to emissions (B, T, C)."""
        return self.emissions(states)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, real: Tensor) -> Tensor:
        """(B,): log p of each row's tags."""
        own = emissions.float().log_softmax(dim=-1).gather(2, tags[..., None])[..., 0]
        return torch.where(real, own, 0).sum(dim=1)

    def decode(self, emissions: Tensor, real: Tensor) -> Tensor:
        """(B, T): the most likely sequence of tags."""
        return torch.where(real, emissions.argmax(dim=-1), 0)

    def marginals(self, emissions: Tensor, real: Tensor) -> Tensor:
        """(B, T, C): the probabilities of the tags of each word."""
        return emissions.float().softmax(dim=-1)

    def loss(self, emissions: Tensor, tags: Tensor, real: Tensor) -> Tally:
        """-log p, per word."""
        return Tally(-self.log_likelihood(emissions, tags, real).sum(), real.sum())


class Crf(LinearTags):
    barred: Tensor

    def __init__(self, width: int, tags: int, allowed: Tensor | None = None, constrained: bool = False):
        """``constrained`` makes all sequences impossible but those that are ``allowed`` (C + 1, C + 1): which tags may
        follow each other, begin a sequence (the last row) and end one (the last column)."""
        super().__init__(width, tags)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.first, self.last = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))
        barred = torch.zeros(tags + 1, tags + 1)
        if constrained and allowed is not None:
            barred = torch.where(allowed, barred, NEVER)
        self.register_buffer("barred", barred, persistent=False)

    @property
    def chain(self) -> Chain:
        barred = self.barred
        transitions = self.transitions.float() + barred[:-1, :-1]
        return Chain(transitions, self.first.float() + barred[-1, :-1], self.last.float() + barred[:-1, -1])

    def log_likelihood(self, emissions: Tensor, tags: Tensor, real: Tensor) -> Tensor:
        emissions, chain = emissions.float(), self.chain
        return path_score(emissions, tags, real, chain) - log_partition(emissions, real, chain)

    def decode(self, emissions: Tensor, real: Tensor) -> Tensor:
        return viterbi(emissions.float(), real, self.chain)

    def marginals(self, emissions: Tensor, real: Tensor) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            own = emissions.detach().float().clone().requires_grad_()
            chain = Chain(*(each.detach().clone() for each in self.chain))
            (gradient,) = torch.autograd.grad(log_partition(own, real.clone(), chain).sum(), own)
        return gradient


TAG_HEADS: dict[str, Callable[..., LinearTags]] = {"linear": LinearTags, "crf": Crf}
