"""Beam search: the ``width`` best beginnings are kept and extended by a token, over and over.

    score = log p(tokens) / length ^ length_penalty

A beginning whose end token is among the best ``width`` extensions is finished and set aside. With ``early``, a search
is over when ``width`` are finished; without, when none that goes on can become better than those that are. With
``groups``, the beam is cut into groups that choose in turn, and a token that an earlier group chose at the same place
costs ``diversity`` each time (Vijayakumar et al. 2018, https://arxiv.org/abs/1610.02424).

All sentences and all their beginnings go through the model together. N sentences times groups, W beginnings each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.errors import Problem
from headway.generation.decoder_step import DecoderStep, read_prompts


@dataclass(frozen=True)
class Beam:
    width: int = 5
    best: int = 1  # how many sequences are wanted of each prompt
    length_penalty: float = 1.0
    early: bool = True
    groups: int = 1
    diversity: float = 0.0

    def __post_init__(self) -> None:
        if self.width < 1 or self.groups < 1 or self.width % self.groups:
            raise Problem(f"a beam of width {self.width} cannot be cut into {self.groups} equal groups")
        if not (math.isfinite(self.length_penalty) and math.isfinite(self.diversity)):
            raise Problem("a length penalty and a diversity are finite numbers")
        if not 1 <= self.best <= self.width:
            raise Problem(f"a beam of width {self.width} has no {self.best} best: ask for 1 to {self.width}")


@dataclass(frozen=True)
class Hypothesis:
    tokens: list[int]  # without the end token
    log_probability: float  # of all of them, and of the end, if it came
    score: float
    finished: bool  # whether it came to its end, or was cut off at the limit


@dataclass(frozen=True)
class Candidate:
    """Of the tree that a search grows: a beginning that was looked at."""

    place: int  # the step at which it was looked at: 0, 1, ...
    parent: int  # which of the beginnings kept at the step before it extends
    token: int
    log_probability: float
    fate: str  # kept, finished or dropped


def beam_search(
    steps: DecoderStep,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    eos: int | None,
    beam: Beam | None = None,
    device: torch.device | None = None,
    tree: list[Candidate] | None = None,
) -> list[list[Hypothesis]]:
    """The sequences after each prompt, the best first. What the first prompt's search looks at goes into ``tree``."""
    beam = beam or Beam()
    rows, width = len(prompts) * beam.groups, beam.width // beam.groups
    logits, state = read_prompts(steps, prompts, max_new_tokens, device)
    logits, state = logits.repeat_interleave(beam.width, dim=0), state.expand_beams(beam.width)
    search = Search(rows, width, max_new_tokens, eos, beam, device)
    # To ask a GPU how much is over, and to give it other shapes, costs more than it spares.
    drops = tree is None and beam.groups == 1 and (device is None or device.type == "cpu")
    for place in range(max_new_tokens):
        parents, tokens = search.extend(logits, tree)
        if place + 1 == max_new_tokens or search.is_over():
            break
        extended = (parents + width * torch.arange(len(parents), device=device)[:, None]).flatten()
        state = state.reorder(extended)
        if drops and (going_on := search.drop_what_is_over()) is not None:
            state, tokens = state.keep(going_on), tokens[going_on]
        logits, state = steps.step(tokens.reshape(-1, 1), state)
    return search.results(len(prompts))


class Search:
    """What is kept and what is finished, as tensors (N, W, ...)."""

    def __init__(
        self, rows: int, width: int, max_new_tokens: int, eos: int | None, beam: Beam, device: torch.device | None
    ):
        self.width, self.max_new_tokens, self.eos, self.beam = width, max_new_tokens, eos, beam
        self.totals = torch.full((rows, width), -math.inf, device=device)  # log-probabilities
        self.totals[:, 0] = 0.0  # at first all beginnings are the same one
        self.tokens = torch.zeros(rows, width, 0, dtype=torch.long, device=device)
        self.length = 0
        none = torch.full_like(self.totals, -math.inf)
        nothing = torch.zeros_like(self.totals, dtype=torch.long)
        # Scores, totals, lengths, whether they came to their end, tokens; minus infinity stands for none.
        self.finished = [none, none, nothing, nothing.bool(), self.tokens]
        self.over = torch.zeros(rows, dtype=torch.bool, device=device)
        self.row = torch.arange(rows, device=device)  # which each of them was at first
        self.dropped: list[tuple[Tensor, list[Tensor]]] = []  # rows that are over, and what they found

    def extend(self, logits: Tensor, tree: list[Candidate] | None = None) -> tuple[Tensor, Tensor]:
        """A token further: of what is kept now, the beginnings (N, W) that it extends, and its last tokens (N, W)."""
        size = logits.shape[-1]
        gains = logits.log_softmax(dim=-1).view(len(self.row), self.width, size)
        # Twice as many as are kept: even if the best half of them end, there are enough to go on with.
        totals, picked = self.ranked(gains, min(2 * self.width, self.width * size))
        parents, tokens = picked // size, picked % size
        ranks = torch.arange(totals.shape[1], device=totals.device)
        ends = tokens == (-1 if self.eos is None else self.eos)
        finishes = ends & (ranks < self.width)
        kept = (ends.long() * len(ranks) + ranks).argsort(dim=1)[:, : self.width]  # those that do not end, in order
        if tree is not None:
            fates = ["finished" if row else "dropped" for row in finishes[0].tolist()]
            for place in kept[0][~ends[0, kept[0]]].tolist():
                fates[place] = "kept"
            columns = parents[0].tolist(), tokens[0].tolist(), totals[0].tolist(), fates
            tree += [Candidate(self.length, *row) for row in zip(*columns, strict=True) if row[2] > -math.inf]
        whole = torch.cat([chosen(self.tokens, parents), tokens[..., None]], dim=-1)
        self.length += 1
        self.finished[-1] = F.pad(self.finished[-1], (0, 1))
        self.finish(totals.masked_fill(~finishes, -math.inf), whole, ends)
        self.totals = padded(chosen(totals.masked_fill(ends, -math.inf), kept), self.width, -math.inf)
        self.tokens = padded(chosen(whole, kept), self.width)
        return padded(chosen(parents, kept), self.width), self.tokens[..., self.length - 1]

    def ranked(self, gains: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The best extensions of all beginnings (N, W, V) together: their totals and their places."""
        if self.beam.groups == 1 or self.beam.diversity == 0:
            return best_sums(self.totals, gains, count)
        totals = (self.totals[..., None] + gains).unflatten(0, (-1, self.beam.groups))
        taken = totals.new_zeros(len(totals), totals.shape[-1])  # how often each token, by the groups before
        found = []
        for group in totals.unbind(dim=1):
            places = (group - self.beam.diversity * taken[:, None]).flatten(1).topk(count).indices
            found.append((group.flatten(1).gather(1, places), places))
            now = places[:, : self.width] % totals.shape[-1]
            taken = taken.scatter_add(1, now, torch.ones_like(now, dtype=taken.dtype))
        values, places = (torch.stack(each, dim=1).flatten(0, 1) for each in zip(*found, strict=True))
        return values, places

    def finish(self, totals: Tensor, whole: Tensor, ended: Tensor) -> None:
        """Set those aside that are better than what there is. A search that is over takes no more."""
        totals = totals.masked_fill(self.over[:, None], -math.inf)
        scores = totals / self.length**self.beam.length_penalty
        new = scores, totals, torch.full_like(whole[..., 0], self.length), ended, whole
        both = [torch.cat(each, dim=1) for each in zip(self.finished, new, strict=True)]
        best = both[0].topk(self.width).indices
        self.finished = [chosen(each, best) for each in both]

    def is_over(self) -> bool:
        worst = self.finished[0][:, -1]
        if self.beam.early:
            self.over = self.over | (worst > -math.inf)
        else:
            # Going on only loses probability; dividing by the length helps most at the limit, if it helps at all.
            longest = self.max_new_tokens if self.beam.length_penalty > 0 else self.length
            self.over = self.over | (self.totals[:, 0] / longest**self.beam.length_penalty <= worst)
        return bool(self.over.all())

    def drop_what_is_over(self, share: float = 0.25) -> Tensor | None:
        """Go on with the other rows alone, if enough are over for it to pay; gives their places."""
        if self.over.float().mean() < share:
            return None
        going_on, over = (~self.over).nonzero()[:, 0], self.over.nonzero()[:, 0]
        self.dropped.append((self.row[over], [each[over] for each in self.finished]))
        self.finished = [each[going_on] for each in self.finished]
        self.row, self.over = self.row[going_on], self.over[going_on]
        self.totals, self.tokens = self.totals[going_on], self.tokens[going_on]
        return going_on

    def results(self, prompts: int) -> list[list[Hypothesis]]:
        """The best of each prompt; what was cut off at the limit is among them."""
        if self.length == self.max_new_tokens:
            self.finish(self.totals, self.tokens, torch.zeros_like(self.totals, dtype=torch.bool))
        if self.dropped:
            pieces = [*self.dropped, (self.row, self.finished)]
            for _, found in pieces:
                found[-1] = F.pad(found[-1], (0, self.length - found[-1].shape[-1]))
            order = torch.cat([rows for rows, _ in pieces]).argsort()
            self.finished = [torch.cat(each)[order] for each in zip(*(found for _, found in pieces), strict=True)]
        columns = [each.reshape(prompts, -1, *each.shape[2:]).tolist() for each in self.finished]
        return [self.best_of(*row) for row in zip(*columns, strict=True)]

    def best_of(
        self, scores: list[float], totals: list[float], lengths: list[int], ended: list[bool], tokens: list[list[int]]
    ) -> list[Hypothesis]:
        found = [
            Hypothesis(row[: length - stop], total, score, stop)
            for score, total, length, stop, row in zip(scores, totals, lengths, ended, tokens, strict=True)
            if score > -math.inf
        ]
        return sorted(found, key=lambda each: -each.score)[: self.beam.best]


def best_sums(totals: Tensor, gains: Tensor, count: int, group: int = 128) -> tuple[Tensor, Tensor]:
    """Of the sums totals (N, W) + gains (N, W, V), the largest of each N: values and places among W V.

    On a CPU, to look for few among many takes long. The largest are in the groups with the largest maxima: first these
    groups are found, then the largest in them.
    """
    rows, _, size = gains.shape
    whole = size // group * group
    if gains.device.type != "cpu" or whole // group < 4 * count:
        return (totals[..., None] + gains).flatten(1).topk(count)
    tops = gains[..., :whole].unflatten(-1, (-1, group)).amax(dim=-1)
    if whole < size:
        tops = torch.cat([tops, gains[..., whole:].amax(dim=-1, keepdim=True)], dim=-1)
    groups = (totals[..., None] + tops).flatten(1).topk(count).indices
    beginnings, places = groups // tops.shape[-1], groups % tops.shape[-1] * group
    tokens = places[..., None] + torch.arange(group)  # (N, count, group); behind the last there is nothing
    candidates = (beginnings[..., None] * size + tokens.clamp(max=size - 1)).flatten(1)
    values = gains.reshape(rows, -1).gather(1, candidates) + totals.gather(1, beginnings).repeat_interleave(
        group, dim=1
    )
    values, picked = values.masked_fill((tokens >= size).flatten(1), -math.inf).topk(count)
    return values, candidates.gather(1, picked)


def chosen(values: Tensor, places: Tensor) -> Tensor:
    """Of values (N, K, ...) those at the places (N, W)."""
    return values[torch.arange(len(values), device=values.device)[:, None], places]


def padded(values: Tensor, width: int, filler: float = 0) -> Tensor:
    """(N, K, ...) as (N, W, ...), where there are fewer extensions than the beam is wide."""
    missing = values.new_full((len(values), width - values.shape[1], *values.shape[2:]), filler)
    return torch.cat([values, missing], dim=1) if missing.numel() else values
