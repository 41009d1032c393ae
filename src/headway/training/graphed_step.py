"""The loss and gradients of a training step as CUDA graphs, one for each shape of a batch; see nn/cuda_graphs."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.data.batch import Batch
from headway.nn.cuda_graphs import record

Backward = Callable[[Batch, Tensor], Tensor]  # of a batch and its weight: leaves the gradient, gives the loss
MOST = 64  # shapes that are recorded; others are worked through as ever


@dataclass(frozen=True)
class Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch  # where it reads
    weight: Tensor
    loss: Tensor  # where it writes


class GraphedStep:
    def __init__(self, model: nn.Module, backward: Backward, device: torch.device):
        self.model, self.backward, self.device = model, backward, device
        self.recordings: dict[Hashable, Recording] = {}
        self.met: Counter[Hashable] = Counter()
        self.pool = torch.cuda.graph_pool_handle()  # one for all: none of them needs what another left

    def ready(self, batch: Batch) -> bool:
        """Whether batches of this shape are recorded; from their second on, if there are not too many shapes."""
        batch = batch.rounded()
        shape = shape_of(batch)
        self.met[shape] += 1
        if shape not in self.recordings and self.met[shape] > 1 and len(self.recordings) < MOST:
            self.recordings[shape] = self.add(batch.to(self.device))
        return shape in self.recordings

    def play(self, batch: Batch, weight: float) -> Tensor:
        batch = batch.rounded()
        recording = self.recordings[shape_of(batch)]
        for name, tensor in batch.tensors.items():
            getattr(recording.batch, name).copy_(tensor, non_blocking=True)
        recording.weight.fill_(weight)
        recording.graph.replay()
        return recording.loss

    def add(self, batch: Batch) -> Recording:
        batch = replace(batch, **{name: tensor.clone() for name, tensor in batch.tensors.items()})
        weight, loss = torch.ones((), device=self.device), torch.zeros((), device=self.device)

        def step() -> None:
            torch._foreach_zero_([each.grad for each in self.model.parameters() if each.grad is not None])
            loss.copy_(self.backward(batch, weight))

        graph = record(step, lambda: self.backward(batch, weight), self.pool)
        return Recording(graph, batch, weight, loss)


def shape_of(batch: Batch) -> Hashable:
    return tuple((name, tuple(tensor.shape)) for name, tensor in batch.tensors.items())
