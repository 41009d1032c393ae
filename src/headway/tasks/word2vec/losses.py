"""How likely a word is beside others, by their vectors: the losses of word vectors.

A word has a vector v as one that is looked at from, and another one w as one that is looked for. With h for the vector
that is looked from (of one word, or the mean of several):

- full: -log softmax(w h)[target], over all words
- negative: -log sigmoid(w_target h) - sum of log sigmoid(-w_n h) over words n that were drawn (Mikolov et al. 2013,
  https://arxiv.org/abs/1310.4546)
- hierarchical: the target is a leaf of a binary tree, and each turn on the way to it is a yes or no: - sum of
  log sigmoid(+-w_node h) (Morin & Bengio 2005, https://proceedings.mlr.press/r5/morin05a.html)
"""

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
    logits = (outputs[nodes] @ hidden[..., None])[..., 0]
    signed = logits * (2 * turns.to(logits.dtype) - 1)
    return Tally(-(F.logsigmoid(signed) * there).sum(), len(nodes))
