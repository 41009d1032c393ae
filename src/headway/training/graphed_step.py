"""The loss and gradients of a training step as CUDA graphs, one per batch shape; see nn/cuda_graphs."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.data.batch import Batch
from headway.nn.cuda_graphs import record

Backward = Callable[[Batch, Tensor], Tensor]  # batch and weight of its loss -> loss; leaves the gradients in the model
MAX_SHAPES = 64  # that are recorded; others run eagerly


@dataclass(frozen=True)
class Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch  # static input
    weight: Tensor
    loss: Tensor  # static output


class GraphedStep:
    def __init__(self, model: nn.Module, backward: Backward, device: torch.device):
        self.model, self.backward, self.device = model, backward, device
        self.recordings: dict[Hashable, Recording] = {}
        self.seen: Counter[Hashable] = Counter()
        self.pool = torch.cuda.graph_pool_handle()  # shared: no graph needs what another one left in memory

    def ready(self, batch: Batch) -> bool:
        """Whether this shape is recorded; it is when it comes for the second time, if there are not too many shapes."""
        batch = batch.rounded()
        shape = shape_of(batch)
        self.seen[shape] += 1
        if shape not in self.recordings and self.seen[shape] > 1 and len(self.recordings) < MAX_SHAPES:
            self.recordings[shape] = self.add(batch.to(self.device))
        return shape in self.recordings

    def play(self, batch: Batch, weight: float) -> Tensor:
        batch = batch.rounded()
        recording = self.recordings[shape_of(batch)]
        static = recording.batch.tensors
        for name, tensor in batch.tensors.items():
            static[name].copy_(tensor, non_blocking=True)
        recording.weight.fill_(weight)
        recording.graph.replay()
        return recording.loss

    def add(self, batch: Batch) -> Recording:
        batch = replace(batch, **{name: tensor.clone() for name, tensor in batch.tensors.items()})
        weight, loss = torch.ones((), device=self.device), torch.zeros((), device=self.device)

        def step() -> None:
            torch._foreach_zero_(
                [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
            )
            loss.copy_(self.backward(batch, weight))

        graph = record(step, lambda: self.backward(batch, weight), self.pool)
        return Recording(graph, batch, weight, loss)


def shape_of(batch: Batch) -> Hashable:
    return tuple((name, tuple(tensor.shape)) for name, tensor in batch.tensors.items())
