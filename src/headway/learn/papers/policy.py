"""RLHF in pieces: the reward model's loss, rewards with a KL penalty, advantages, and PPO's losses.

Shapes: N pairs, B answers, T tokens. real (B, T) is True for the tokens of an answer.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def ranking_loss(better: Tensor, worse: Tensor) -> Tensor:
    """Mean of -log sigmoid(r_better - r_worse); both are (N,)."""
    return -F.logsigmoid(better - worse).mean()


def token_rewards(scores: Tensor, log_probs: Tensor, ref_log_probs: Tensor, real: Tensor, beta: float) -> Tensor:
    """(B, T): minus beta times the KL estimate at every token, and the score of the answer (B,) at its last one."""
    rewards = -beta * (log_probs - ref_log_probs) * real
    last = real.sum(dim=1) - 1
    return rewards.scatter_add(1, last[:, None], scores[:, None])


def advantages(rewards: Tensor, values: Tensor, real: Tensor, discount: float, trace: float) -> Tensor:
    """Generalised advantage estimation."""
    result = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[:, 0])
    following = torch.zeros_like(running)
    for place in reversed(range(rewards.shape[1])):
        error = rewards[:, place] + discount * following - values[:, place]
        running = (error + discount * trace * running) * real[:, place]
        following = values[:, place] * real[:, place]
        result[:, place] = running
    return result


def whitened(values: Tensor, real: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1 over the real tokens."""
    counted = values[real]
    return (values - counted.mean()) / (counted.std(correction=0) + 1e-8) * real


def policy_loss(log_probs: Tensor, old_log_probs: Tensor, advantage: Tensor, real: Tensor, clip: float) -> Tensor:
    ratio = (log_probs - old_log_probs).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    return -(gain * real).sum() / real.sum()


def value_loss(values: Tensor, returns: Tensor, real: Tensor) -> Tensor:
    return ((values - returns).square() / 2 * real).sum() / real.sum()


def preference_loss(log_probs: Tensor, ref_log_probs: Tensor, beta: float) -> Tensor:
    """DPO; (N, 2): the better and the worse answer."""
    rewards = beta * (log_probs - ref_log_probs)
    return -F.logsigmoid(rewards[:, 0] - rewards[:, 1]).mean()
