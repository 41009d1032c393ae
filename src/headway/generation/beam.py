"""Beam search: keep the ``width`` best hypotheses, and extend each by one token per step.

    score = log p(tokens) / length ^ length_penalty

A hypothesis is finished when its end token is among the best ``width`` extensions. With ``early``, the search stops
when ``width`` hypotheses are finished; without, when no open hypothesis can become better than the finished ones. With
``groups``, the beam is split into groups that choose one after another, and a token pays ``diversity`` for each time
that an earlier group chose it at the same step (Vijayakumar et al. 2018, https://arxiv.org/abs/1610.02424).

All hypotheses of all prompts go through the model in one batch: N = prompts x groups rows of W = width / groups
hypotheses each (``Search.width``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.errors import Problem
from headway.generation.decoder_step import DecoderStep, read_prompts

SMALL = 64  # with so few tokens, the search may be one in a tree that is written by hand
MOST_BEAMS = 100_000
MOST_PENALTY = 50  # a million to the power of it is still a number
DIGITS = 5  # to which log-probabilities are equal: 0.5 x 0.2 and 0.2 x 0.5 differ in their last bit


@dataclass(frozen=True)
class Beam:
    width: int = 5
    best: int = 1  # hypotheses returned for each prompt
    length_penalty: float = 1.0
    early: bool = True
    groups: int = 1
    diversity: float = 0.0

    def __post_init__(self) -> None:
        for name, value in {"width": self.width, "best": self.best, "groups": self.groups}.items():
            if not isinstance(value, int):
                raise Problem(f"a beam's {name} is a whole number, not {value!r}")
        if self.width < 1 or self.groups < 1 or self.width % self.groups:
            raise Problem(f"a beam of width {self.width} cannot be split into {self.groups} equal groups")
        if self.width > MOST_BEAMS:
            raise Problem(f"a beam of width {self.width:,} is too wide: at most {MOST_BEAMS:,}")
        if not (math.isfinite(self.length_penalty) and math.isfinite(self.diversity)):
            raise Problem("length penalty and diversity must be finite numbers")
        if abs(self.length_penalty) > MOST_PENALTY:
            raise Problem(f"length_penalty={self.length_penalty} is not from {-MOST_PENALTY} to {MOST_PENALTY}")
        if not 1 <= self.best <= self.width:
            raise Problem(f"best={self.best} is not from 1 to {self.width}, the width of the beam")


@dataclass(frozen=True)
class Hypothesis:
    tokens: list[int]  # without the end token
    log_probability: float  # with the end token, if finished
    score: float
    finished: bool  # with an end token, not cut off at max_new_tokens


@dataclass(frozen=True)
class Candidate:
    """A hypothesis that the search considered: a node of the search tree."""

    step: int  # 0, 1, ...
    parent: int  # index among the hypotheses kept at the previous step
    token: int
    log_probability: float
    fate: str  # kept, finished or dropped


def beam_search(
    decoder: DecoderStep,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    eos: int | None,
    beam: Beam | None = None,
    device: torch.device | None = None,
    tree: list[Candidate] | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each prompt, best first. Candidates of the first prompt are appended to ``tree``."""
    beam = beam or Beam()
    rows, width = len(prompts) * beam.groups, beam.width // beam.groups
    logits, state = read_prompts(decoder, prompts, max_new_tokens, device)
    logits, state = logits.repeat_interleave(beam.width, dim=0), state.expand_beams(beam.width)
    search = Search(rows, width, max_new_tokens, eos, beam, device)
    # On a GPU, synchronising and changing shapes costs more than dropping finished rows saves. state.keep() takes
    # prompts, so a row must be a prompt (one group); the tree follows row 0, which must stay.
    drop_rows = tree is None and beam.groups == 1 and (device is None or device.type == "cpu")
    for step in range(max_new_tokens):
        parents, tokens = search.extend(logits, tree)
        if step + 1 == max_new_tokens or search.mark_over():
            break
        rows_of_parents = (parents + width * torch.arange(len(parents), device=device)[:, None]).flatten()
        state = state.reorder(rows_of_parents)
        if drop_rows and (open_rows := search.drop_finished_rows()) is not None:
            state, tokens = state.keep(open_rows), tokens[open_rows]
        logits, state = decoder.step(tokens.reshape(-1, 1), state)
    return search.results(len(prompts))


class Finished(NamedTuple):
    """Finished hypotheses; a score of minus infinity marks a free place."""

    scores: Tensor  # (N, W)
    totals: Tensor  # (N, W): log-probabilities
    lengths: Tensor  # (N, W)
    ended: Tensor  # (N, W): whether there is an end token
    tokens: Tensor  # (N, W, T)


class Search:
    """Open and finished hypotheses, as tensors (N, W, ...)."""

    def __init__(
        self, rows: int, width: int, max_new_tokens: int, eos: int | None, beam: Beam, device: torch.device | None
    ):
        self.width, self.max_new_tokens, self.eos, self.beam = width, max_new_tokens, eos, beam
        self.totals = torch.full((rows, width), -math.inf, device=device)  # log-probabilities
        self.totals[:, 0] = 0.0  # at the start, only one (empty) hypothesis
        self.tokens = torch.zeros(rows, width, 0, dtype=torch.long, device=device)
        self.length = 0
        none = torch.full_like(self.totals, -math.inf)
        nothing = torch.zeros_like(self.totals, dtype=torch.long)
        self.finished = Finished(none, none, nothing, nothing.bool(), self.tokens)
        self.over = torch.zeros(rows, dtype=torch.bool, device=device)
        self.row = torch.arange(rows, device=device)  # the original index of each row
        self.dropped: list[tuple[Tensor, Finished]] = []  # dropped rows, and their finished hypotheses

    def extend(self, logits: Tensor, tree: list[Candidate] | None = None) -> tuple[Tensor, Tensor]:
        """One step: the parents (N, W) of the new hypotheses, and their last tokens (N, W)."""
        size = logits.shape[-1]
        log_probs = logits.log_softmax(dim=-1).view(len(self.row), self.width, size)
        # Twice the width: even if the best half of them end, enough are left to continue.
        totals, picked = self.ranked(log_probs, min(2 * self.width, self.width * size))
        parents, tokens = picked // size, picked % size
        ranks = torch.arange(totals.shape[1], device=totals.device)
        ends = tokens == (-1 if self.eos is None else self.eos)
        finishes = ends & (ranks < self.width)
        kept = (ends.long() * len(ranks) + ranks).argsort(dim=1)[:, : self.width]  # those that do not end, in order
        if tree is not None:
            continues = kept[0][~ends[0, kept[0]]]
            self.record(tree, parents[0], tokens[0], totals[0], finishes[0], continues)
        whole = torch.cat([chosen(self.tokens, parents), tokens[..., None]], dim=-1)
        self.length += 1
        self.finished = self.finished._replace(tokens=F.pad(self.finished.tokens, (0, 1)))
        self.finish(totals.masked_fill(~finishes, -math.inf), whole, ends)
        self.totals = padded(chosen(totals.masked_fill(ends, -math.inf), kept), self.width, -math.inf)
        self.tokens = padded(chosen(whole, kept), self.width)
        return padded(chosen(parents, kept), self.width), self.tokens[..., self.length - 1]

    def record(
        self, tree: list[Candidate], parents: Tensor, tokens: Tensor, totals: Tensor, finishes: Tensor, kept: Tensor
    ) -> None:
        """Append the extensions of a row to the tree; ``kept`` are the ranks of those that continue."""
        fates = ["finished" if finished else "dropped" for finished in finishes.tolist()]
        for rank in kept.tolist():
            fates[rank] = "kept"
        columns = parents.tolist(), tokens.tolist(), totals.tolist(), fates
        tree += [Candidate(self.length, *row) for row in zip(*columns, strict=True) if row[2] > -math.inf]

    def ranked(self, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The best extensions of each row, from ``log_probs`` (N, W, V): their totals, and indices into W V."""
        if self.beam.groups == 1 or self.beam.diversity == 0:
            return best_sums(self.totals, log_probs, count)
        totals = (self.totals[..., None] + log_probs).unflatten(0, (-1, self.beam.groups))
        counts = totals.new_zeros(len(totals), totals.shape[-1])  # of each token in earlier groups
        best = []
        for group in totals.unbind(dim=1):
            indices = (group - self.beam.diversity * counts[:, None]).flatten(1).topk(count).indices
            best.append((group.flatten(1).gather(1, indices), indices))
            tokens = indices[:, : self.width] % totals.shape[-1]
            counts = counts.scatter_add(1, tokens, torch.ones_like(tokens, dtype=counts.dtype))
        values, indices = (torch.stack(each, dim=1).flatten(0, 1) for each in zip(*best, strict=True))
        return values, indices

    def finish(self, totals: Tensor, whole: Tensor, ended: Tensor) -> None:
        """Merge new hypotheses into the finished ones and keep the best. Rows that are over take no more."""
        totals = totals.masked_fill(self.over[:, None], -math.inf)
        scores = totals / self.length**self.beam.length_penalty
        new = Finished(scores, totals, torch.full_like(whole[..., 0], self.length), ended, whole)
        both = Finished(*(torch.cat(each, dim=1) for each in zip(self.finished, new, strict=True)))
        best = first_best(both.scores, self.width)
        self.finished = Finished(*(chosen(each, best) for each in both))

    def mark_over(self) -> bool:
        """Mark the rows whose search is over; returns whether all are."""
        worst = self.finished.scores[:, -1]
        if self.beam.early:
            self.over = self.over | (worst > -math.inf)
        else:
            # Log-probability only falls. With a length penalty above 0 the best score still possible is at the maximum
            # length, otherwise at this one.
            longest = self.max_new_tokens if self.beam.length_penalty > 0 else self.length
            self.over = self.over | (self.totals[:, 0] / longest**self.beam.length_penalty <= worst)
        return bool(self.over.all())

    def drop_finished_rows(self, share: float = 0.25) -> Tensor | None:
        """Continue with the open rows only, if enough rows are over to be worth it; returns their indices."""
        if self.over.float().mean() < share:
            return None
        open_rows, over = (~self.over).nonzero()[:, 0], self.over.nonzero()[:, 0]
        self.dropped.append((self.row[over], Finished(*(each[over] for each in self.finished))))
        self.finished = Finished(*(each[open_rows] for each in self.finished))
        self.row, self.over = self.row[open_rows], self.over[open_rows]
        self.totals, self.tokens = self.totals[open_rows], self.tokens[open_rows]
        return open_rows

    def results(self, prompts: int) -> list[list[Hypothesis]]:
        """The best hypotheses of each prompt, including those cut off at max_new_tokens."""
        if self.length == self.max_new_tokens:
            # Cut off at max_new_tokens: open hypotheses compete too. After an earlier stop they do not count.
            self.finish(self.totals, self.tokens, torch.zeros_like(self.totals, dtype=torch.bool))
        if self.dropped:
            pieces = [*self.dropped, (self.row, self.finished)]
            order = torch.cat([rows for rows, _ in pieces]).argsort()
            padded_pieces = [
                each._replace(tokens=F.pad(each.tokens, (0, self.length - each.tokens.shape[-1]))) for _, each in pieces
            ]
            self.finished = Finished(*(torch.cat(column)[order] for column in zip(*padded_pieces, strict=True)))
        lists = [each.reshape(prompts, -1, *each.shape[2:]).tolist() for each in self.finished]
        return [self.best_of(*row) for row in zip(*lists, strict=True)]

    def best_of(
        self, scores: list[float], totals: list[float], lengths: list[int], ended: list[bool], tokens: list[list[int]]
    ) -> list[Hypothesis]:
        hypotheses = [
            Hypothesis(row[: length - stop], total, score, stop)
            for score, total, length, stop, row in zip(scores, totals, lengths, ended, tokens, strict=True)
            if score > -math.inf
        ]
        return sorted(hypotheses, key=lambda each: -round(each.score, DIGITS))[: self.beam.best]  # equal ones stay


def best_sums(totals: Tensor, log_probs: Tensor, count: int, chunk: int = 128) -> tuple[Tensor, Tensor]:
    """The ``count`` largest of totals (N, W) + log_probs (N, W, V) in each row: values, and indices into W V.

    A CPU is slow at finding the top few among many. They must be in the chunks of the vocabulary with the largest
    maxima: first find these chunks, then the largest elements in them.
    """
    rows, _, size = log_probs.shape
    whole = size // chunk * chunk
    if size <= SMALL:
        sums = (totals[..., None] + log_probs).flatten(1)
        indices = first_best(sums, count)
        return sums.gather(1, indices), indices
    if log_probs.device.type != "cpu" or whole // chunk < 4 * count:
        return (totals[..., None] + log_probs).flatten(1).topk(count)
    tops = log_probs[..., :whole].unflatten(-1, (-1, chunk)).amax(dim=-1)
    if whole < size:
        tops = torch.cat([tops, log_probs[..., whole:].amax(dim=-1, keepdim=True)], dim=-1)
    chunks = (totals[..., None] + tops).flatten(1).topk(count).indices
    hypotheses, starts = chunks // tops.shape[-1], chunks % tops.shape[-1] * chunk
    tokens = starts[..., None] + torch.arange(chunk)  # (N, count, chunk); the last chunk may exceed the vocabulary
    candidates = (hypotheses[..., None] * size + tokens.clamp(max=size - 1)).flatten(1)
    before = totals.gather(1, hypotheses).repeat_interleave(chunk, dim=1)
    values = log_probs.reshape(rows, -1).gather(1, candidates) + before
    values, picked = values.masked_fill((tokens >= size).flatten(1), -math.inf).topk(count)
    return values, candidates.gather(1, picked)


def first_best(values: Tensor, count: int) -> Tensor:
    """The indices of the ``count`` largest values of each row; of equal ones the first, as one would by hand."""
    return values.round(decimals=DIGITS).sort(descending=True, stable=True).indices[:, :count]


def chosen(values: Tensor, indices: Tensor) -> Tensor:
    """The values (N, K, ...) at the indices (N, W) of each row."""
    return values[torch.arange(len(values), device=values.device)[:, None], indices]


def padded(values: Tensor, width: int, filler: float = 0) -> Tensor:
    """(N, K, ...) -> (N, W, ...), if there are fewer extensions than the beam is wide."""
    missing = values.new_full((len(values), width - values.shape[1], *values.shape[2:]), filler)
    return torch.cat([values, missing], dim=1) if missing.numel() else values
