"""Rollouts: a policy writes answers, and looks at what it has written."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.generation import DecoderStep, Sampling, sample
from headway.models.decoder import Decoder
from headway.models.fast_decoder import GraphedDecoder
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.rollouts import Rollout, taken
from headway.text.tokenizer import Tokenizer

AT_ONCE = 1 << 14  # tokens that are looked at together
ASKED_EVERY = 8  # tokens after which it is asked whether all answers have ended: a GPU has to wait for that


class TokenStats(NamedTuple):
    """Of all tokens of the answers (K,)."""

    log_probs: Tensor  # how likely each was, as a logarithm,
    ref_log_probs: Tensor  # and for the reference
    values: Tensor  # what was expected
    entropies: Tensor  # of what else could have come


@dataclass(frozen=True)
class SampledCompletions:
    """Answers to prompts, on the CPU."""

    prompts: list[list[int]]
    tokens: Tensor  # (n, T): an answer's own come first
    sizes: Tensor  # (n,): how many those are
    ended: Tensor  # (n,): whether the last of them is the end

    @classmethod
    def of(cls, prompts: list[list[int]], tokens: Tensor, end: int) -> "SampledCompletions":
        ends = tokens == end
        ended = ends.any(dim=1)
        sizes = torch.where(ended, ends.int().argmax(dim=1) + 1, tokens.shape[1])
        return cls(prompts, tokens[:, : int(sizes.max())], sizes, ended)

    @property
    def real(self) -> Tensor:
        """(n, T)"""
        return torch.arange(self.tokens.shape[1]) < self.sizes[:, None]

    def repeated(self, size: int = 3) -> Tensor:
        """(n,): the share of an answer's runs of so many tokens that came before in it."""
        if self.tokens.shape[1] < size:
            return torch.zeros(len(self.tokens))
        runs, real = self.tokens.unfold(1, size, 1), self.real[:, size - 1 :]
        numbers = (runs * (int(self.tokens.max()) + 1) ** torch.arange(size)).sum(dim=2)
        unlike = -1 - torch.arange(numbers.shape[1])  # behind the end there is nothing to repeat
        found = torch.where(real, numbers, unlike).sort(dim=1).values
        return (found.diff(dim=1) == 0).sum(dim=1) / real.sum(dim=1).clamp(min=1)

    def padded(self, flat: Tensor) -> Tensor:
        """(K,) as (n, T), with zeros behind each answer."""
        found = flat.new_zeros(self.real.shape)
        found[self.real] = flat
        return found

    def at_the_end(self, rewards: Tensor) -> Tensor:
        """(n,) as (n, T): at the last token of each answer."""
        found = rewards.new_zeros(self.real.shape)
        found[torch.arange(len(rewards)), self.sizes - 1] = rewards
        return found

    def rollout(self, *found: Tensor) -> Rollout:
        """With what was found out about each token of the answers; at first, nothing."""
        prompts = torch.tensor([len(prompt) for prompt in self.prompts])
        rows = [
            torch.cat([torch.tensor(prompt), own[:size]])
            for prompt, own, size in zip(self.prompts, self.tokens, self.sizes, strict=True)
        ]
        answers = F.pad(self.sizes.cumsum(0), (1, 0))
        nothing = torch.zeros(int(answers[-1]))
        return Rollout(
            torch.cat(rows),
            F.pad((prompts + self.sizes).cumsum(0), (1, 0)),
            prompts,
            answers,
            *(found or [nothing] * 4),
        )


@dataclass
class RolloutSampler:
    tokenizer: Tokenizer
    end: int
    max_new_tokens: int  # tokens of an answer at most
    window: int  # and with its prompt
    after: str = ""  # what stands behind every answer, and is no part of it
    recorded: dict[Decoder, DecoderStep] = field(default_factory=dict)

    @torch.inference_mode(False)  # what is recorded in there could not be used outside
    @torch.no_grad()
    def write(self, policy: PolicyWithReference, prompts: list[list[int]], seeds: Sequence[int]) -> SampledCompletions:
        device, made = next(policy.parameters()).device, []
        ended = torch.zeros(len(prompts), dtype=torch.bool, device=device)
        steps = self.steps_of(policy.decoder, device)
        for new in sample(steps, prompts, self.max_new_tokens, Sampling(), seeds, self.window, device):
            made.append(new)
            ended |= new == self.end
            if len(made) % ASKED_EVERY == 0 and ended.all():
                break
        return SampledCompletions.of(prompts, torch.stack(made, dim=1).cpu(), self.end)

    def steps_of(self, decoder: Decoder, device: torch.device) -> DecoderStep:
        """On a GPU they are recorded once: a recording reads the weights where they are, whatever they have become."""
        if device.type != "cuda":
            return decoder
        if decoder not in self.recorded:
            self.recorded = {decoder: GraphedDecoder(decoder)}
        return self.recorded[decoder]

    @torch.no_grad()
    def token_stats(self, policy: PolicyWithReference, written: SampledCompletions) -> TokenStats:
        """At all tokens of the answers at once, as in training."""
        rollout, device = written.rollout(), next(policy.parameters()).device
        at_once = max(AT_ONCE // int(rollout.ends.diff().max()), 1)
        found: list[TokenStats] = []
        for rows in torch.arange(len(rollout)).split(at_once):
            batch = taken(rollout, rows).to(device)
            logits, values = policy(*batch.read)
            log_probs = logits.float().log_softmax(dim=-1)
            ref_log_probs = policy.reference_logits(*batch.read).float().log_softmax(dim=-1)
            own = batch.targets[:, None]
            entropies = -(log_probs.exp() * log_probs).sum(dim=-1)
            found.append(
                TokenStats(
                    log_probs.gather(1, own)[:, 0], ref_log_probs.gather(1, own)[:, 0], values.float(), entropies
                )
            )
        return TokenStats(*(torch.cat(each).cpu() for each in zip(*found, strict=True)))

    def texts(self, written: SampledCompletions) -> list[str]:
        sizes = (written.sizes - written.ended.long()).tolist()
        texts = (self.tokenizer.decode(row[:size].tolist()) for row, size in zip(written.tokens, sizes, strict=True))
        return [text.removesuffix(self.after) for text in texts]
