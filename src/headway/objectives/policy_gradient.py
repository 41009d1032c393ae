"""Policy gradients: a policy samples answers, each gets a reward, and answers better than expected become more likely.
Everything here is per token of an answer, (B, T); ``real`` (B, T) is True for the tokens that count.

- KL of the policy pi from the reference model p, estimated at tokens sampled from pi. With x = log(p / pi): k1 = -x,
  k2 = x^2 / 2 and k3 = e^x - 1 - x (Schulman 2020, http://joschu.net/blog/kl-approx.html). k1 and k3 are unbiased, k2
  has a small bias; k2 and k3 are never negative.
- gae: generalised advantage estimation (Schulman et al. 2015, https://arxiv.org/abs/1506.02438): the sum over k of
  (discount * gae_lambda)^k d_(t+k), where d_t = r_t + discount * V_(t+1) - V_t
- grpo: instead of a value function, answers to the same prompt are compared with each other (Shao et al. 2024,
  https://arxiv.org/abs/2402.03300)
- PPO, proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347): with the ratio
  rho = pi / pi_old, the loss is -min(rho A, clip(rho, 1 - clip_range, 1 + clip_range) A)
- the KL coefficient beta is fixed, or adapts to a target KL: it changes by a tenth of the relative error, which is
  clipped to 20 % (Ziegler et al. 2019, https://arxiv.org/abs/1909.08593)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from headway.objectives.tally import Tally

MIN_STD = 1e-8  # lower bound of a standard deviation that is divided by
ROUNDING = 1e-4  # the same for a few rewards, which may differ by rounding only

Estimator = Callable[[Tensor, Tensor], Tensor]


def k1(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    # learn: begin rlhf.kl1
    return log_probs - ref_log_probs
    # learn: end


def k2(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    # learn: begin rlhf.kl2
    return (log_probs - ref_log_probs).square() / 2
    # learn: end


def k3(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    # learn: begin rlhf.kl3
    log_ratio = ref_log_probs - log_probs
    return torch.expm1(log_ratio) - log_ratio
    # learn: end


def masked_sum(values: Tensor, real: Tensor) -> Tally:
    return Tally(torch.where(real, values, 0).sum(), real.sum())


def advantages(rewards: Tensor, values: Tensor, real: Tensor, discount: float, gae_lambda: float) -> Tensor:
    """(B, T); the value after the last token of an answer is 0."""
    # learn: begin rlhf.gae
    rewards, values = torch.where(real, rewards, 0), torch.where(real, values, 0)
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    errors = rewards + discount * after - values
    positions = torch.arange(values.shape[1], device=values.device)
    delay = positions[:, None] - positions  # (T, T): row minus column
    weights = torch.where(delay >= 0, (discount * gae_lambda) ** delay.clamp(min=0).to(values.dtype), 0)
    with torch.autocast(values.device.type, enabled=False):  # in full precision
        return torch.where(real, errors @ weights, 0)
    # learn: end


def whiten(values: Tensor, real: Tensor) -> Tensor:
    """Normalised to mean 0 and standard deviation 1. Values that differ by rounding only become (nearly) 0."""
    counted = values[real]
    min_std = (ROUNDING * counted.abs().max()).clamp(min=MIN_STD)
    return torch.where(real, (values - counted.mean()) / torch.maximum(counted.std(correction=0), min_std), 0)


def group_advantages(rewards: Tensor, prompts: Tensor) -> Tensor:
    """(B,): rewards normalised to mean 0 and standard deviation 1 among the answers to the same prompt. Rewards that
    differ by rounding only become (nearly) 0."""
    # learn: begin rlhf.group
    _, groups, sizes = prompts.unique(return_inverse=True, return_counts=True)
    means = torch.zeros_like(sizes, dtype=torch.double).index_add_(0, groups, rewards.double()) / sizes
    centred = rewards - means[groups]
    std = (torch.zeros_like(means).index_add_(0, groups, centred.square()) / sizes).sqrt()
    return (centred / std[groups].clamp(min=ROUNDING)).to(rewards.dtype)
    # learn: end


def ppo_loss(log_probs: Tensor, old_log_probs: Tensor, advantage: Tensor, real: Tensor, clip_range: float) -> Tally:
    # learn: begin rlhf.ppo
    ratio = (log_probs - old_log_probs).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip_range, 1 + clip_range) * advantage)
    return masked_sum(-gain, real)
    # learn: end


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, real: Tensor, clip_range: float) -> Tally:
    """Half the squared error; moving more than ``clip_range`` away from the old value gains nothing."""
    # learn: begin rlhf.value
    clipped = old_values + (values - old_values).clamp(-clip_range, clip_range)
    return masked_sum(torch.maximum((values - returns).square(), (clipped - returns).square()) / 2, real)
    # learn: end


def entropy(logits: Tensor, real: Tensor) -> Tally:
    """Entropy of the next-token distribution; logits are (B, T, V)."""
    log_probs = logits.log_softmax(dim=-1)
    return masked_sum(-(log_probs.exp() * log_probs).sum(dim=-1), real)


class AdvantageEstimate(NamedTuple):
    """Per token, (B, T)."""

    advantages: Tensor
    returns: Tensor  # targets of the value function


def gae(
    rewards: Tensor, values: Tensor, real: Tensor, prompts: Tensor, discount: float = 1.0, gae_lambda: float = 0.95
) -> AdvantageEstimate:
    """``prompts`` (B,) is the prompt id of each answer, which only grpo uses."""
    if not (0 <= discount <= 1 and 0 <= gae_lambda <= 1):
        raise ValueError(f"discount={discount} and gae_lambda={gae_lambda} are not both from 0 to 1")
    estimate = advantages(rewards, values, real, discount, gae_lambda)
    return AdvantageEstimate(whiten(estimate, real), torch.where(real, estimate + values, 0))


def grpo(rewards: Tensor, values: Tensor, real: Tensor, prompts: Tensor) -> AdvantageEstimate:
    """All tokens of an answer have the same advantage; the value function is not trained."""
    advantage = group_advantages(torch.where(real, rewards, 0).sum(dim=1), prompts)
    return AdvantageEstimate(torch.where(real, advantage[:, None], 0), torch.where(real, values, 0))


class Penalty(Protocol):
    @property
    def beta(self) -> float:
        """The initial KL coefficient."""

    def after(self, beta: float, divergence: float) -> float:
        """The coefficient after a round with this mean KL per answer."""


def refuse_negative(beta: float) -> None:
    if beta < 0:
        raise ValueError(f"beta={beta} would reward a large KL: it must be at least 0")


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
            raise ValueError(f"target={self.target} cannot be a target KL: it must be above 0")

    def after(self, beta: float, divergence: float) -> float:
        error = min(max(divergence / self.target - 1, -0.2), 0.2)
        return beta * (1 + self.rate * error)


ESTIMATORS: dict[str, Estimator] = {"k1": k1, "k2": k2, "k3": k3}
ADVANTAGES: dict[str, Callable[..., AdvantageEstimate]] = {"gae": gae, "grpo": grpo}
PENALTIES: dict[str, Callable[..., Penalty]] = {"fixed": Fixed, "adaptive": Adaptive}
