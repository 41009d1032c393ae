"""Sampling: the next token is drawn, over and over.

Each row has random numbers of its own, made from its seed: what is drawn for it does not depend on the rows beside it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.generation.decoder_step import DecoderStep, read_prompts
from headway.generation.filters import min_p, penalise_repetition, top_k, top_p, with_temperature

COLDEST = 1e-6  # below, scores divided by it would not be finite


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen from its scores. At a temperature of 0 it is the best one; the other filters are off unless
    they are given."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and math.isfinite(self.repetition)):
            raise Problem("a temperature and a repetition penalty are finite numbers")
        if 0 < self.temperature < COLDEST:
            raise Problem(f"a temperature of {self.temperature} is too close to 0 to divide by: take 0")
        if self.temperature < 0:
            raise Problem(f"a temperature of {self.temperature} is below 0, which is the coldest: it takes the best")
        if self.top_k is not None and self.top_k < 1:
            raise Problem(f"top_k={self.top_k} leaves nothing to choose from: at least 1")
        for name, share in {"top_p": self.top_p, "min_p": self.min_p}.items():
            if share is not None and not 0 < share <= 1:
                raise Problem(f"{name}={share} is not a share: above 0 and at most 1")
        if self.repetition <= 0:
            raise Problem(f"a repetition penalty of {self.repetition} is not above 0; 1 is none")

    def filtered(self, logits: Tensor, seen: Tensor) -> Tensor:
        if self.repetition != 1:
            logits = penalise_repetition(logits, seen, self.repetition)
        if self.temperature > 0:
            logits = with_temperature(logits, self.temperature)
        if self.top_k is not None:
            logits = top_k(logits, self.top_k)
        if self.top_p is not None:
            logits = top_p(logits, self.top_p)
        return logits if self.min_p is None else min_p(logits, self.min_p)

    def choose(self, logits: Tensor, seen: Tensor, draws: Tensor) -> Tensor:
        """A token (B,) for each row of scores (B, V); ``draws`` (B,) are random numbers between 0 and 1."""
        logits = self.filtered(logits, seen)
        return logits.argmax(dim=-1) if self.temperature == 0 else drawn(logits, draws)


def drawn(logits: Tensor, draws: Tensor) -> Tensor:
    """The token at which the sum of probabilities passes the draw."""
    reached = logits.double().softmax(dim=-1).cumsum(dim=-1)
    passed = torch.searchsorted(reached, draws[:, None].double() * reached[:, -1:], right=True)
    return passed.squeeze(-1).clamp(max=logits.shape[-1] - 1)


def sample(
    steps: DecoderStep,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampling: Sampling | None = None,
    seeds: Sequence[int] | None = None,
    window: int | None = None,
    device: torch.device | None = None,
) -> Iterator[Tensor]:
    """The next token (B,) of each row, ``limit`` times; whoever has enough stops asking.

    A model reads at most ``window`` tokens at once: a row that has more goes on with the last half of a window.
    """
    sampling, seeds = sampling or Sampling(), range(len(prompts)) if seeds is None else seeds
    window = window or max_new_tokens + max(len(prompt) for prompt in prompts)
    draws = torch.stack(
        [torch.rand(max_new_tokens, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    ).to(device)
    rows = [torch.tensor(prompt, dtype=torch.long, device=device) for prompt in prompts]
    made = torch.zeros(len(prompts), 0, dtype=torch.long, device=device)
    sizes = [min(len(prompt), window) for prompt in prompts]  # of what is read of each row
    reading = [prompt[-size:] for prompt, size in zip(prompts, sizes, strict=True)]
    logits, state = read_prompts(steps, reading, min(max_new_tokens, window - max(sizes)), device)
    for place in range(max_new_tokens):
        tokens = sampling.choose(logits, seen_by(rows, made, sampling), draws[:, place])
        made = torch.cat([made, tokens[:, None]], dim=1)
        yield tokens
        if place + 1 == max_new_tokens:
            return
        sizes = [size + 1 for size in sizes]
        if max(sizes) <= window:
            logits, state = steps.step(tokens[:, None], state)
        else:
            sizes = [size if size <= window else max(window // 2, 1) for size in sizes]
            whole = [torch.cat([row, new]) for row, new in zip(rows, made, strict=True)]
            reading = [row[-size:].tolist() for row, size in zip(whole, sizes, strict=True)]
            logits, state = read_prompts(steps, reading, min(max_new_tokens - place, window - max(sizes)), device)


def seen_by(rows: list[Tensor], made: Tensor, sampling: Sampling) -> Tensor:
    """(B, T) tokens that were there; a shorter row repeats one of its own. Only who penalises them needs to know."""
    if sampling.repetition == 1:
        return made
    longest = max(len(row) for row in rows)
    padded = torch.stack([torch.cat([row[:1].expand(longest - len(row)), row]) for row in rows])
    return torch.cat([padded, made], dim=1)
