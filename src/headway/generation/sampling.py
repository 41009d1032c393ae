"""Sampling: draw the next token from the model's distribution, after filtering the logits.

Each row has its own seed, so that its samples do not depend on the rest of the batch. Filters map logits (B, V) to
logits and set excluded tokens to minus infinity; they are applied in the order in which they are defined here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.errors import Problem
from headway.generation.decoder_step import DecoderStep, read_prompts

MOST_SEED = 2**63 - 1
MIN_TEMPERATURE = 1e-6  # below, logits divided by it would overflow
BELOW_ONE = 1 - 2**-50
ROUNDING = 1e-9  # of a sum of probabilities


def penalise_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """The logits of earlier tokens, ``seen`` (B, T), are divided by the penalty if positive, else multiplied by it
    (Keskar et al. 2019, https://arxiv.org/abs/1909.05858); once, however often a token occurred."""
    # learn: begin decode.repetition
    repeated = logits.gather(1, seen)
    penalised = repeated.where(repeated < 0, repeated / penalty).where(repeated >= 0, repeated * penalty)
    return logits.scatter(1, seen, penalised)
    # learn: end


def with_temperature(logits: Tensor, temperature: float) -> Tensor:
    # learn: begin decode.temperature
    return logits / temperature
    # learn: end


def top_k(logits: Tensor, count: int) -> Tensor:
    """Keep the ``count`` most likely tokens, and any that tie with the last of them."""
    # learn: begin decode.top_k
    least = logits.topk(min(count, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill(logits < least, -math.inf)
    # learn: end


def top_p(logits: Tensor, share: float) -> Tensor:
    """Nucleus sampling: keep the smallest set of most likely tokens whose probability is at least ``share`` (Holtzman
    et al. 2020, https://arxiv.org/abs/1904.09751)."""
    # learn: begin decode.top_p
    if share >= 1:  # the sum of all others may be 1 by rounding
        return logits
    ordered, order = logits.sort(descending=True, stable=True)
    probabilities = ordered.double().softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    reached = before >= share * (1 - ROUNDING)  # ten equal tokens of 0.1 are 0.9999999999999999
    return logits.masked_fill(reached.gather(1, order.argsort(dim=-1)), -math.inf)
    # learn: end


def min_p(logits: Tensor, share: float) -> Tensor:
    """Keep tokens at least ``share`` times as likely as the best (Nguyen et al. 2024,
    https://arxiv.org/abs/2407.01082)."""
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) + math.log(share), -math.inf)


@dataclass(frozen=True)
class Sampling:
    """How to choose the next token. Temperature 0 is greedy decoding; the other filters are off by default."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not isinstance(value, int | float):
                raise Problem(f"{name}={value!r} is not a number")
        if not (math.isfinite(self.temperature) and math.isfinite(self.repetition_penalty)):
            raise Problem("temperature and repetition penalty must be finite numbers")
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise Problem(f"a temperature of {self.temperature} is too close to 0 to divide by: use 0, greedy decoding")
        if self.temperature < 0:
            raise Problem(f"a temperature of {self.temperature} is below 0: the lowest is 0, greedy decoding")
        if self.top_k is not None and self.top_k < 1:
            raise Problem(f"top_k={self.top_k} leaves no token to choose from: set at least 1")
        for name, share in {"top_p": self.top_p, "min_p": self.min_p}.items():
            if share is not None and not 0 < share <= 1:
                raise Problem(f"{name}={share} is not a probability: set it above 0 and at most 1")
        if self.repetition_penalty <= 0:
            raise Problem(f"a repetition penalty of {self.repetition_penalty} is not above 0: 1 means no penalty")

    def filtered(self, logits: Tensor, seen: Tensor) -> Tensor:
        if self.repetition_penalty != 1:
            logits = penalise_repetition(logits, seen, self.repetition_penalty)
        if self.temperature not in (0, 1):
            logits = with_temperature(logits, self.temperature)
        if self.top_k is not None:
            logits = top_k(logits, self.top_k)
        if self.top_p is not None:
            logits = top_p(logits, self.top_p)
        return logits if self.min_p is None else min_p(logits, self.min_p)

    def choose(self, logits: Tensor, seen: Tensor, draws: Tensor) -> Tensor:
        """A token (B,) for each row of logits (B, V); ``draws`` (B,) are uniform random numbers."""
        logits = self.filtered(logits, seen)
        return logits.argmax(dim=-1) if self.temperature == 0 else inverse_cdf(logits, draws)


LONG_ROW = 1 << 12  # tokens of a vocabulary; from here on, summing in parts is worth the additional steps


def inverse_cdf(logits: Tensor, draws: Tensor) -> Tensor:
    """The first token whose cumulative probability exceeds the draw."""
    if logits.shape[-1] >= LONG_ROW:
        return inverse_cdf_by_parts(logits, draws)
    cumulative = logits.double().softmax(dim=-1).cumsum(dim=-1)
    tokens = torch.searchsorted(cumulative, draws[:, None].double() * cumulative[:, -1:], right=True)
    return tokens.squeeze(-1).clamp(max=logits.shape[-1] - 1)


def inverse_cdf_by_parts(logits: Tensor, draws: Tensor) -> Tensor:
    """The same in two levels: first the part of the row that the draw is in, then the token in this part alone.

    A sum along a whole row is slow: each row keeps one core of a GPU busy, and all others wait.
    """
    size = math.isqrt(logits.shape[-1])
    parts = 2 + (logits.shape[-1] - 1) // size  # the first one is empty: every other one has a sum before it
    weights = torch.full((len(logits), parts * size), -math.inf, dtype=torch.double, device=logits.device)
    weights[:, size : size + logits.shape[-1]] = logits
    weights = weights.sub_(logits.amax(dim=-1, keepdim=True)).exp_().unflatten(1, (parts, size))
    cumulative = weights.sum(dim=-1).cumsum(dim=-1)
    targets = draws[:, None].double() * cumulative[:, -1:]
    part = torch.searchsorted(cumulative, targets, right=True).clamp_(1, parts - 1)
    inside = weights.gather(1, part[:, :, None].expand(-1, -1, size))[:, 0].cumsum(dim=-1)
    # By rounding, what is left may be the whole part and more: then the last of its likely tokens is drawn.
    left = (targets - cumulative.gather(1, part - 1)).minimum(inside[:, -1:] * BELOW_ONE)
    tokens = (part - 1) * size + torch.searchsorted(inside, left, right=True)
    return tokens.squeeze(-1).clamp_(max=logits.shape[-1] - 1)


def sample(
    decoder: DecoderStep,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampling: Sampling | None = None,
    seeds: Sequence[int] | None = None,
    window: int | None = None,
    device: torch.device | None = None,
) -> Iterator[Tensor]:
    """Yields the next token (B,) of each row, ``max_new_tokens`` times.

    A model reads at most ``window`` tokens. A row that is full continues with the last half of its window.
    """
    sampling, seeds = sampling or Sampling(), range(len(prompts)) if seeds is None else seeds
    if bad := [seed for seed in seeds if not 0 <= seed <= MOST_SEED]:
        raise Problem(f"seed={bad[0]} is not a random seed: set a whole number from 0 to {MOST_SEED:,}")
    window = window or max_new_tokens + max(len(prompt) for prompt in prompts)
    draws = torch.stack(
        [torch.rand(max_new_tokens, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    ).to(device=device, dtype=torch.double)
    longest = max(len(prompt) for prompt in prompts)
    # Shorter prompts are padded with a token of their own, for the repetition penalty.
    padded = [list(prompt[:1]) * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    written = F.pad(torch.tensor(padded, dtype=torch.long, device=device), (0, max_new_tokens))
    sizes = [min(len(prompt), window) for prompt in prompts]  # tokens of each row in its window
    contexts = [prompt[-size:] for prompt, size in zip(prompts, sizes, strict=True)]
    logits, state = read_prompts(decoder, contexts, min(max_new_tokens, window - max(sizes)), device)
    for step, end in enumerate(range(longest, longest + max_new_tokens), start=1):
        tokens = sampling.choose(logits, written[:, :end], draws[:, step - 1])
        written[:, end] = tokens
        yield tokens
        if step == max_new_tokens:
            return
        sizes = [size + 1 for size in sizes]
        if max(sizes) <= window:
            logits, state = decoder.step(tokens[:, None], state)
        else:
            sizes = [size if size <= window else max(window // 2, 1) for size in sizes]
            contexts = [row[end + 1 - size : end + 1].tolist() for row, size in zip(written, sizes, strict=True)]
            logits, state = read_prompts(decoder, contexts, min(max_new_tokens - step, window - max(sizes)), device)
