"""How likely a word is beside others, by their vectors: the losses of word vectors.

A word has a vector v as one that is looked at from, and another one w as one that is looked for. With h for the vector
that is looked from (of one word, or the mean of several):

- full: -log softmax(w h)[target], over all words
- negative: -log sigmoid(w_target h) - sum of log sigmoid(-w_n h) over words n that were drawn (Mikolov et al. 2013,
  https://arxiv.org/abs/1310.4546)
- hierarchical: the target is a leaf of a binary tree, and each turn on the way to it is a yes or no: - sum of
  log sigmoid(+-w_node h) (Morin & Bengio 2005, https://proceedings.mlr.press/r5/morin05a.html)

In blocks (B of them), any of the words that are looked from (H) may look for any of those in the middle (M).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.objectives.tally import Tally


def full(hidden: Tensor, outputs: Tensor, targets: Tensor) -> Tally:
    """hidden (N, D), outputs (V, D), targets (N,)."""
    return Tally(F.cross_entropy(hidden @ outputs.T, targets, reduction="sum"), len(targets))


def negative(hidden: Tensor, outputs: Tensor, targets: Tensor, negatives: Tensor) -> Tally:
    """negatives (N, K); one that is the target itself does not count."""
    right = (hidden * outputs[targets]).sum(dim=-1)
    wrong = (outputs[negatives] @ hidden[..., None])[..., 0]
    counted = negatives != targets[:, None]
    total = -F.logsigmoid(right).sum() - (F.logsigmoid(-wrong) * counted).sum()
    return Tally(total, len(targets))


def hierarchical(hidden: Tensor, outputs: Tensor, nodes: Tensor, turns: Tensor, there: Tensor) -> Tally:
    """nodes (N, depth) on the way to each target, turns (N, depth) True where it goes on to the first of the two,
    there (N, depth) False behind the end of the way."""
    scores = (outputs[nodes] @ hidden[..., None])[..., 0]
    signed = scores * (2 * turns.to(scores.dtype) - 1)
    return Tally(-(F.logsigmoid(signed) * there).sum(), len(nodes))


def full_in_blocks(hidden: Tensor, outputs: Tensor, middle: Tensor, wanted: Tensor) -> tuple[Tally, Tensor]:
    """hidden (B, H, D), outputs (V, D), middle (B, M); wanted (B, H, M) is 1 where one is looked for from the other.
    Gives also how many pairs each of the outputs (V,) has a part in, as far as it is taken for the right one."""
    chances = torch.log_softmax(hidden @ outputs.T, dim=-1)
    found = chances.gather(2, middle[:, None].expand(wanted.shape))
    taken = (chances.detach().exp() * wanted.sum(dim=-1, keepdim=True)).sum(dim=(0, 1))
    taken = taken.index_add(0, middle.flatten(), wanted.sum(dim=1).flatten())
    return Tally(-(found * wanted).sum(), wanted.sum()), taken


def negative_in_blocks(
    hidden: Tensor, outputs: Tensor, middle: Tensor, negatives: Tensor, wanted: Tensor, count: int
) -> tuple[Tally, Tensor]:
    """outputs (B, M + N, D) are those of the words in the middle and of the negatives (B, N), which a whole block
    shares: each of them counts ``count`` / N times. Gives also in how many pairs each of them (B, M + N) has a part."""
    right, wrong = (hidden @ outputs.mT).split([middle.shape[1], negatives.shape[1]], dim=-1)
    other = (middle[:, :, None] != negatives[:, None]).to(wanted)
    unwanted = wanted @ other * (count / negatives.shape[1])
    total = -(F.logsigmoid(right) * wanted).sum() - (F.logsigmoid(-wrong) * unwanted).sum()
    return Tally(total, wanted.sum()), torch.cat([wanted, unwanted], dim=-1).sum(dim=1)
