"""How well classes are told apart."""

from torch import Tensor

from headway.objectives.tally import Tally


def accuracy(predicted: Tensor, targets: Tensor) -> Tally:
    """The share of predictions that are right."""
    return Tally((predicted == targets).sum(), targets.numel())
