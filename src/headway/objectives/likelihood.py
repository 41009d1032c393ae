"""Losses that are negative log-likelihoods: of the right class (or token) among many, or of a yes or no.

For two classes they are the same thing: the softmax of scores (a, b) gives the second class the probability
sigmoid(b - a).
"""

from torch import Tensor
from torch.nn import functional as F

from headway.objectives.tally import Tally

UNCOUNTED = -100  # in the place of a target


def cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor | None = None, smoothing: float = 0.0) -> Tally:
    """-log softmax(scores)[target]; scores (..., C), targets (...) whole numbers below C, of which those count that
    ``weights`` (...) says True of. With ``smoothing``, that share of the target is spread over all classes (Szegedy et
    al. 2016, https://arxiv.org/abs/1512.00567)."""
    count: int | Tensor = targets.numel()
    if weights is not None and logits.device.type == "cpu":
        logits, targets = logits[weights], targets[weights]
        count = targets.numel()
    elif weights is not None:  # how many there are, a GPU would have to be asked
        targets, count = targets.masked_fill(~weights, UNCOUNTED), weights.sum()
    flat = logits.flatten(0, -2), targets.flatten()
    total = F.cross_entropy(*flat, ignore_index=UNCOUNTED, reduction="sum", label_smoothing=smoothing)
    return Tally(total, count)


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tally:
    """-log sigmoid(score) where the target is 1, -log(1 - sigmoid(score)) where it is 0; scores (..., 1)."""
    total = F.binary_cross_entropy_with_logits(logits.squeeze(-1), targets.to(logits.dtype), reduction="sum")
    return Tally(total, targets.numel())
