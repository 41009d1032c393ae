"""Losses and gradients whose kernels are recorded once for each shape of a batch, and then played back by a GPU.

A small network's step is a thousand short kernels, and to start each of them from Python takes longer than they do.
A CUDA graph starts them all at once. It reads the batch where the one lay that it was recorded with, and leaves the
gradients in the same place each time.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.data.batch import Batch

Backward = Callable[[Batch, Tensor], Tensor]  # of a batch and its weight: leaves the gradient, gives the loss
MOST = 64  # shapes that are recorded; others are worked through as ever
WARM_UP = 2  # calls before a recording, in which libraries set themselves up


@dataclass(frozen=True)
class Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch  # where it reads
    weight: Tensor
    loss: Tensor  # where it writes


class Recorded:
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
            self.recordings[shape] = self.record(batch.to(self.device))
        return shape in self.recordings

    def play(self, batch: Batch, weight: float) -> Tensor:
        batch = batch.rounded()
        recording = self.recordings[shape_of(batch)]
        for name, tensor in batch.tensors.items():
            getattr(recording.batch, name).copy_(tensor, non_blocking=True)
        recording.weight.fill_(weight)
        recording.graph.replay()
        return recording.loss

    def record(self, batch: Batch) -> Recording:
        batch = replace(batch, **{name: tensor.clone() for name, tensor in batch.tensors.items()})
        weight, loss = torch.ones((), device=self.device), torch.zeros((), device=self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.backward(batch, weight)
        torch.cuda.current_stream().wait_stream(side)
        gradients = [each.grad for each in self.model.parameters() if each.grad is not None]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            torch._foreach_zero_(gradients)
            loss.copy_(self.backward(batch, weight))
        return Recording(graph, batch, weight, loss)


def shape_of(batch: Batch) -> Hashable:
    return tuple((name, tuple(tensor.shape)) for name, tensor in batch.tensors.items())
