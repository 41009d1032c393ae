"""Sampling answers from a policy, and computing the log-probabilities and values of their tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.generation import DecoderStep, Sampling, sample
from headway.models.decoder import Decoder
from headway.models.fast_decoder import GraphedDecoder, fast_decoder, half_copy
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.rollouts import Rollout, batch_of
from headway.text.tokenizer import Tokenizer

STATS_TOKENS = 1 << 14  # tokens per forward pass
CHECK_EVERY = 8  # tokens between checks whether all answers have ended: each one synchronizes the GPU
Refresh = Callable[[], None]  # brings the matrices of a decoder's copy up to date


class TokenStats(NamedTuple):
    """Of all answer tokens (K,)."""

    log_probs: Tensor
    ref_log_probs: Tensor
    values: Tensor
    entropies: Tensor


@dataclass(frozen=True)
class SampledCompletions:
    """Answers to prompts, on the CPU."""

    prompts: list[list[int]]
    tokens: Tensor  # (n, T), padded on the right
    sizes: Tensor  # (n,): tokens of each answer, with eos
    ended: Tensor  # (n,): whether its last token is eos

    @classmethod
    def of(cls, prompts: list[list[int]], tokens: Tensor, eos: int) -> "SampledCompletions":
        ends = tokens == eos
        ended = ends.any(dim=1)
        sizes = torch.where(ended, ends.int().argmax(dim=1) + 1, tokens.shape[1])
        return cls(prompts, tokens[:, : int(sizes.max())], sizes, ended)

    @property
    def real(self) -> Tensor:
        """(n, T)"""
        return torch.arange(self.tokens.shape[1]) < self.sizes[:, None]

    def repeated(self, size: int = 3) -> Tensor:
        """(n,): the share of n-grams of this size that already occurred in the answer."""
        if self.tokens.shape[1] < size:
            return torch.zeros(len(self.tokens))
        ngrams, real = self.tokens.unfold(1, size, 1), self.real[:, size - 1 :]
        numbers = (ngrams * (int(self.tokens.max()) + 1) ** torch.arange(size)).sum(dim=2)
        distinct = -1 - torch.arange(numbers.shape[1])  # padding never repeats
        ordered = torch.where(real, numbers, distinct).sort(dim=1).values
        return (ordered.diff(dim=1) == 0).sum(dim=1) / real.sum(dim=1).clamp(min=1)

    def padded(self, flat: Tensor) -> Tensor:
        """(K,) as (n, T), with zeros as padding."""
        values = flat.new_zeros(self.real.shape)
        values[self.real] = flat
        return values

    def at_last_token(self, rewards: Tensor) -> Tensor:
        """(n,) as (n, T): at the last token of each answer, zero elsewhere."""
        values = rewards.new_zeros(self.real.shape)
        values[torch.arange(len(rewards)), self.sizes - 1] = rewards
        return values

    def rollout(self, *per_token: Tensor) -> Rollout:
        """With log_probs, values, advantages and returns (K,) of the answer tokens; zeros if not given."""
        prompts = torch.tensor([len(prompt) for prompt in self.prompts])
        rows = [
            torch.cat([torch.tensor(prompt), own[:size]])
            for prompt, own, size in zip(self.prompts, self.tokens, self.sizes, strict=True)
        ]
        answers = F.pad(self.sizes.cumsum(0), (1, 0))
        zeros = torch.zeros(int(answers[-1]))
        return Rollout(
            torch.cat(rows),
            F.pad((prompts + self.sizes).cumsum(0), (1, 0)),
            prompts,
            answers,
            *(per_token or [zeros] * 4),
        )


@dataclass
class RolloutSampler:
    tokenizer: Tokenizer
    eos: int
    max_new_tokens: int
    window: int  # maximum tokens of prompt and answer
    suffix: str = ""  # of the template, removed from the answers
    made: dict[tuple[Decoder, torch.dtype], tuple[DecoderStep, Refresh]] = field(default_factory=dict)

    @torch.inference_mode(False)  # tensors of a CUDA graph recorded in inference mode could not be used in training
    @torch.no_grad()
    def sample(self, policy: PolicyWithReference, prompts: list[list[int]], seeds: Sequence[int]) -> SampledCompletions:
        device = next(policy.parameters()).device
        columns: list[Tensor] = []
        ended = torch.zeros(len(prompts), dtype=torch.bool, device=device)
        step = self.step_of(policy.decoder, device)
        for new in sample(step, prompts, self.max_new_tokens, Sampling(), seeds, self.window, device):
            columns.append(new)
            if len(columns) % CHECK_EVERY == 0:
                ended |= (torch.stack(columns[-CHECK_EVERY:]) == self.eos).any(dim=0)
                if ended.all():
                    break
        return SampledCompletions.of(prompts, torch.stack(columns, dim=1).cpu(), self.eos)

    def step_of(self, decoder: Decoder, device: torch.device) -> DecoderStep:
        """The fastest steps with the present weights. On a GPU they are recorded once: a CUDA graph reads the weights
        in place, so it sees every update."""
        half = torch.is_autocast_enabled(device.type)
        if device.type != "cuda" and not half:
            return fast_decoder(decoder)
        precision = torch.get_autocast_dtype(device.type) if half else torch.float32
        if (decoder, precision) not in self.made:
            model, refresh = half_copy(decoder, precision) if half else (decoder, lambda: None)
            self.made = {(decoder, precision): (GraphedDecoder(model) if device.type == "cuda" else model, refresh)}
        steps, refresh = self.made[decoder, precision]
        refresh()
        return steps

    @torch.no_grad()
    def token_stats(self, policy: PolicyWithReference, completions: SampledCompletions) -> TokenStats:
        """All answer tokens in parallel, as in training."""
        rollout, device = completions.rollout(), next(policy.parameters()).device
        rows_per_pass = max(STATS_TOKENS // int(rollout.ends.diff().max()), 1)
        parts: list[TokenStats] = []
        for rows in torch.arange(len(rollout)).split(rows_per_pass):
            batch = batch_of(rollout, rows).to(device)
            logits, values = policy(*batch.model_inputs)
            log_probs = logits.float().log_softmax(dim=-1)
            ref_log_probs = policy.reference_logits(*batch.model_inputs).float().log_softmax(dim=-1)
            targets = batch.targets[:, None]
            entropies = -(log_probs.exp() * log_probs).sum(dim=-1)
            parts.append(
                TokenStats(
                    log_probs.gather(1, targets)[:, 0],
                    ref_log_probs.gather(1, targets)[:, 0],
                    values.float(),
                    entropies,
                )
            )
        return TokenStats(*(torch.cat(each).cpu() for each in zip(*parts, strict=True)))

    def texts(self, completions: SampledCompletions) -> list[str]:
        sizes = (completions.sizes - completions.ended.long()).tolist()
        texts = (
            self.tokenizer.decode(row[:size].tolist()) for row, size in zip(completions.tokens, sizes, strict=True)
        )
        return [text.removesuffix(self.suffix) for text in texts]
