"""Preference losses: the answers to a prompt are ranked, and a model learns to rank them the same way.

With r the reward of an answer, and w preferred to l, the loss of a prompt with K answers is

    -1 / C(K, 2) * sum over its pairs of log sigmoid(r_w - r_l)

(Ouyang et al. 2022, https://arxiv.org/abs/2203.02155): each answer is evaluated once, and is in K - 1 pairs. A tie
counts half as a win for either side. A reward model outputs r; in DPO, r = beta * log(pi(answer) / pi_ref(answer))
(Rafailov et al. 2023, https://arxiv.org/abs/2305.18290).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.objectives.tally import Tally


def answer_pairs(prompts: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of all pairs of answers to the same prompt; ``prompts`` (N,) is the prompt id of each answer."""
    count = len(prompts)
    first, second = torch.triu_indices(count, count, offset=1, device=prompts.device)
    same = prompts[first] == prompts[second]
    return first[same], second[same]


def wins(ranks: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """1 where the first answer of a pair is better, 0.5 where they tie; rank 0 is the best."""
    return 0.5 * (1 + (ranks[second] - ranks[first]).sign().double())


def ranking_loss(rewards: Tensor, ranks: Tensor, prompts: Tensor) -> Tally:
    """Summed over prompts; rewards, ranks and prompts are (N,). A prompt with a single answer does not count."""
    # learn: begin rlhf.reward
    first, second = answer_pairs(prompts)
    numbers, owners = prompts[first].unique(return_inverse=True)
    won = wins(ranks, first, second).to(rewards.dtype)
    losses = F.binary_cross_entropy_with_logits(rewards[first] - rewards[second], won, reduction="none")
    sizes = torch.bincount(owners, minlength=len(numbers)).to(losses.dtype)
    return Tally((losses / sizes[owners]).sum(), len(numbers))
    # learn: end
