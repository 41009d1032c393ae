"""A loss or a metric as a sum and a count.

Tallies are added over micro-batches, processes and evaluation batches, and divided once, at the end. So a mean does not
depend on how the examples were batched.
"""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Tally:
    total: Tensor
    count: int | Tensor  # a tensor if reading it would synchronise with the device

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    def detach_cpu(self) -> "Tally":
        """Detached, on the CPU, in float64, so that long sums do not accumulate rounding errors."""
        return Tally(self.total.detach().cpu().double(), int(self.count))
