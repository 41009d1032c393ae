"""Learning from rewards: a policy writes answers, each is given a reward, and what did better than expected becomes
likelier. Everything here is per token of an answer, (B, T), of which those count that ``real`` says True of.

- KL: how far the policy pi has gone from the one it began as, p, at tokens that it drew itself: with x = log(p / pi),
  the estimators k1 = -x, k2 = x^2 / 2 and k3 = e^x - 1 - x (Schulman 2020, http://joschu.net/blog/kl-approx.html).
  k1 and k3 are right on the mean, k2 is a little off; k2 and k3 are never below zero.
- advantages: how much better it went than expected, by generalised advantage estimation (Schulman et al. 2015,
  https://arxiv.org/abs/1506.02438): with d_t = r_t + discount * V_(t+1) - V_t, the sum of (discount * trace)^k d_(t+k)
- clipped: proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347): with the ratio
  rho = pi / pi_old, the loss -min(rho A, clip(rho, 1 - range, 1 + range) A)
- in place of advantages, answers to one prompt may be compared among themselves alone: ``grouped`` (Shao et al. 2024,
  https://arxiv.org/abs/2402.03300)
- the weight beta of the KL is fixed, or follows a target: a tenth of the relative error, and no more than a fifth of it
  at once (Ziegler et al. 2019, https://arxiv.org/abs/1909.08593)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from headway.objectives.tally import Tally

LEAST = 1e-8  # what a spread is at least, before something is divided by it,
ALIKE = 1e-4  # and that of a few rewards, which may differ by how they were rounded

Estimator = Callable[[Tensor, Tensor], Tensor]


def k1(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    return log_probs - ref_log_probs


def k2(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    return (log_probs - ref_log_probs).square() / 2


def k3(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    apart = ref_log_probs - log_probs
    return torch.expm1(apart) - apart


def summed(values: Tensor, real: Tensor) -> Tally:
    return Tally(torch.where(real, values, 0).sum(), real.sum())


def advantages(rewards: Tensor, values: Tensor, real: Tensor, discount: float, gae_lambda: float) -> Tensor:
    """(B, T); an answer ends behind its last token, and is worth nothing from there on."""
    rewards, values = torch.where(real, rewards, 0), torch.where(real, values, 0)
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    surprise = rewards + discount * after - values
    places = torch.arange(values.shape[1], device=values.device)
    later = places[:, None] - places  # (T, T): how much later the first is than the second
    weights = torch.where(later >= 0, (discount * gae_lambda) ** later.clamp(min=0).to(values.dtype), 0)
    with torch.autocast(values.device.type, enabled=False):  # in full precision, whatever the policy writes in
        return torch.where(real, surprise @ weights, 0)


def whitened(values: Tensor, real: Tensor) -> Tensor:
    """With a mean of 0 and a spread of 1, over all that counts. Where all are alike but for rounding, they are zero."""
    counted = values[real]
    least = (ALIKE * counted.abs().max()).clamp(min=LEAST)
    return torch.where(real, (values - counted.mean()) / torch.maximum(counted.std(correction=0), least), 0)


def above_their_group(rewards: Tensor, prompts: Tensor) -> Tensor:
    """(B,): how far each answer's reward is above the mean of those to its prompt, by their spread. Where all are alike
    but for rounding, that is zero."""
    _, owners, sizes = prompts.unique(return_inverse=True, return_counts=True)
    means = torch.zeros_like(sizes, dtype=torch.double).index_add_(0, owners, rewards.double()) / sizes
    apart = rewards - means[owners]
    spread = (torch.zeros_like(means).index_add_(0, owners, apart.square()) / sizes).sqrt()
    return (apart / spread[owners].clamp(min=ALIKE)).to(rewards.dtype)


def clipped(log_probs: Tensor, old: Tensor, advantage: Tensor, real: Tensor, clip_range: float) -> Tally:
    ratio = (log_probs - old).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip_range, 1 + clip_range) * advantage)
    return summed(-gain, real)


def clipped_values(values: Tensor, old: Tensor, returns: Tensor, real: Tensor, clip_range: float) -> Tally:
    """Half the squared error of what was expected; a value gains nothing by going farther than ``reach`` from the
    old one."""
    near = old + (values - old).clamp(-clip_range, clip_range)
    return summed(torch.maximum((values - returns).square(), (near - returns).square()) / 2, real)


def entropy(logits: Tensor, real: Tensor) -> Tally:
    """Of the distribution over the next token; scores are (B, T, V)."""
    log_probs = logits.log_softmax(dim=-1)
    return summed(-(log_probs.exp() * log_probs).sum(dim=-1), real)


class AdvantageEstimate(NamedTuple):
    """What is to be learned from answers, at each of their tokens (B, T)."""

    advantages: Tensor
    returns: Tensor  # what should have been expected


def gae(
    rewards: Tensor, values: Tensor, real: Tensor, prompts: Tensor, discount: float = 1.0, gae_lambda: float = 0.95
) -> AdvantageEstimate:
    """``prompts`` (B,) number what the answers are to."""
    if not (0 <= discount <= 1 and 0 <= gae_lambda <= 1):
        raise ValueError(f"a discount of {discount} and a trace of {gae_lambda} are not both from 0 to 1")
    found = advantages(rewards, values, real, discount, gae_lambda)
    return AdvantageEstimate(whitened(found, real), torch.where(real, found + values, 0))


def grpo(rewards: Tensor, values: Tensor, real: Tensor, prompts: Tensor) -> AdvantageEstimate:
    """All tokens of an answer are as good; nothing is expected."""
    whole = above_their_group(torch.where(real, rewards, 0).sum(dim=1), prompts)
    return AdvantageEstimate(torch.where(real, whole[:, None], 0), torch.where(real, values, 0))


class Penalty(Protocol):
    @property
    def beta(self) -> float:
        """To begin with."""

    def after(self, beta: float, divergence: float) -> float:
        """What comes after a round with this KL of a whole answer, on the mean."""


def refuse_negative(beta: float) -> None:
    if beta < 0:
        raise ValueError(f"a price of {beta} would pay for going away: it is at least 0")


@dataclass(frozen=True)
class Fixed:
    beta: float = 0.1

    def __post_init__(self) -> None:
        refuse_negative(self.beta)

    def after(self, beta: float, divergence: float) -> float:
        return beta


@dataclass(frozen=True)
class Adaptive:
    beta: float = 0.1
    target: float = 6.0
    rate: float = 0.1

    def __post_init__(self) -> None:
        refuse_negative(self.beta)
        if self.target <= 0:
            raise ValueError(f"a KL of {self.target} cannot be a target: it is above 0")

    def after(self, beta: float, divergence: float) -> float:
        error = min(max(divergence / self.target - 1, -0.2), 0.2)
        return beta * (1 + self.rate * error)


ESTIMATORS: dict[str, Estimator] = {"k1": k1, "k2": k2, "k3": k3}
ADVANTAGES: dict[str, Callable[..., AdvantageEstimate]] = {"gae": gae, "grpo": grpo}
PENALTIES: dict[str, Callable[..., Penalty]] = {"fixed": Fixed, "adaptive": Adaptive}
