"""What people prefer, as losses: answers to one prompt are ranked, and a model learns to rank them likewise.

With r for the reward of an answer, and w better than l, a prompt with K answers has the loss

    -1 / C(K, 2) * sum over its pairs of log sigmoid(r_w - r_l)

(Ouyang et al. 2022, https://arxiv.org/abs/2203.02155): each answer is run once, and is in K - 1 pairs. Where two are as
good, half of the pair says that the one is better, and half the other. ``direct`` asks the same of a policy, whose
reward for an answer is how much likelier it has made it, times beta (Rafailov et al. 2023,
https://arxiv.org/abs/2305.18290).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.objectives.tally import Tally


def pairs_of(prompts: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of answers to the same prompt, the first of each and the second; answers (N,) have prompts' numbers."""
    count = len(prompts)
    first, second = torch.triu_indices(count, count, offset=1, device=prompts.device)
    same = prompts[first] == prompts[second]
    return first[same], second[same]


def wins(ranks: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """1 where the first of a pair is the better one, a half where they are as good; rank 0 is the best."""
    return 0.5 * (1 + (ranks[second] - ranks[first]).sign().double())


def ranked(rewards: Tensor, ranks: Tensor, prompts: Tensor) -> Tally:
    """The sum over prompts, and how many there are; rewards, ranks and prompts are (N,). A prompt with one answer has
    no pairs, and does not count."""
    first, second = pairs_of(prompts)
    numbers, owners = prompts[first].unique(return_inverse=True)
    won = wins(ranks, first, second).to(rewards.dtype)
    losses = F.binary_cross_entropy_with_logits(rewards[first] - rewards[second], won, reduction="none")
    sizes = torch.bincount(owners, minlength=len(numbers)).to(losses.dtype)
    return Tally((losses / sizes[owners]).sum(), len(numbers))


def direct(logs: Tensor, before: Tensor, ranks: Tensor, prompts: Tensor, beta: float) -> Tally:
    """Of answers with these log-probabilities (N,), now and before training."""
    return ranked(beta * (logs - before), ranks, prompts)
