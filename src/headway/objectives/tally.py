"""A loss or a metric as a sum and a count.

Tallies add over micro-batches, processes and evaluation batches, and are divided once, at the end. So a mean does not
depend on how the examples were grouped.
"""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Tally:
    total: Tensor
    count: int | Tensor  # a tensor where it is not known without asking the device

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    def detach_cpu(self) -> "Tally":
        """Off the device and out of the graph, in float64, so that a long sum does not round."""
        return Tally(self.total.detach().cpu().double(), int(self.count))
