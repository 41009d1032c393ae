"""An evaluation that several processes share: each measures some of the batches, and all get the tallies of all."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import distributed

from headway.data.batch import Batch
from headway.objectives.tally import Tally

Tallies = dict[str, Tally]


@dataclass(frozen=True)
class Sharing:
    rank: int = 0
    processes: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    group: Any = None

    def tallies(self, measure: Callable[[Batch], Tallies], batches: Iterable[Batch]) -> Iterator[Tallies]:
        """Those of each batch, in the order of the batches: their sum does not depend on who measured what."""
        if self.processes == 1:
            for batch in batches:
                yield on_cpu(measure(batch))
            return
        own, number = [], -1
        for number, batch in enumerate(batches):
            if number % self.processes == self.rank or number == 0:  # the first tells all of them what is measured
                own.append(on_cpu(measure(batch)))
        if own:
            yield from self.gather(own if self.rank == 0 else own[1:], sorted(own[0]), number + 1)

    def gather(self, own: list[Tallies], names: list[str], batches: int) -> Iterator[Tallies]:
        sums = torch.zeros(-(-batches // self.processes), len(names), 2, dtype=torch.float64)
        for row, tallies in enumerate(own):
            for column, name in enumerate(names):
                sums[row, column, 0], sums[row, column, 1] = tallies[name].total, tallies[name].count
        sums = sums.to(self.device)
        everyone = [torch.empty_like(sums) for _ in range(self.processes)]
        distributed.all_gather(everyone, sums, group=self.group)
        by_batch = torch.stack(everyone, dim=1).flatten(0, 1).cpu()
        for row in by_batch[:batches]:
            yield {name: Tally(total, int(count)) for name, (total, count) in zip(names, row, strict=True)}


ALONE = Sharing()


def on_cpu(tallies: Tallies) -> Tallies:
    return {name: tally.detach_cpu() for name, tally in tallies.items()}
