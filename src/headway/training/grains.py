"""Gradients whose bits do not depend on the number of processes.

A batch is cut into G fixed groups of rows, its grains. Each grain has dropout of its own, and the gradients of the
grains add up in a fixed binary tree:

    ((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7))        2 processes compute one half each

Floating-point addition is not associative, so the order decides the bits; here it is the same whoever adds. G and the
number of processes are powers of two, and each process has whole subtrees.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed

from headway.data.batch import Batch

ABSENT = -0.0  # x + -0.0 is x for every x, also for -0.0


class Tree:
    """Adds tensors in a binary tree, in the order in which they come; as many as a power of two."""

    def __init__(self) -> None:
        self.sums: list[tuple[int, Tensor]] = []  # finished subtrees: the number of leaves, and their sum

    def add(self, leaf: Tensor) -> None:
        size, total = 1, leaf
        while self.sums and self.sums[-1][0] == size:
            _, left = self.sums.pop()
            size, total = 2 * size, left.add_(total)
        self.sums.append((size, total))

    @property
    def total(self) -> Tensor:
        ((_, total),) = self.sums
        return total


class Grains:
    def __init__(self, count: int, weights: Sequence[Tensor], rank: int, processes: int, group: Any = None):
        self.count, self.rank, self.processes, self.group = count, rank, processes, group
        self.weights = [weight for weight in weights if weight.requires_grad]

    def own(self) -> range:
        each = self.count // self.processes
        return range(self.rank * each, (self.rank + 1) * each)

    def rows(self, batch: Batch, grain: int) -> Batch | None:
        """The rows of a grain; None if there are fewer rows than grains."""
        return batch.take(slice(grain, None, self.count)) if grain < len(batch) else None

    def leaf(self, loss: Tensor) -> Tensor:
        """The gradients of a grain as one vector, with the loss and which weights have a gradient; they are removed
        from the weights."""
        gradients = [weight.grad for weight in self.weights]
        present = torch.tensor([float(each is not None) for each in gradients], dtype=loss.dtype, device=loss.device)
        absent = [torch.full_like(weight, ABSENT) for weight in self.weights]
        flat = [(own if each is None else each).flatten() for each, own in zip(gradients, absent, strict=True)]
        for weight in self.weights:
            weight.grad = None
        return torch.cat([*flat, present, loss.reshape(1)])

    def gather(self, tree: Tree) -> Tensor:
        """Add the other processes' gradients, set those of the weights, and return the loss."""
        total = tree.total if self.processes == 1 else add_in_order(tree.total, self.processes, self.group)
        sizes = [weight.numel() for weight in self.weights]
        *flat, present, loss = total.split([*sizes, len(sizes), 1])
        for weight, gradient, count in zip(self.weights, flat, present.tolist(), strict=True):
            weight.grad = gradient.view_as(weight).to(weight.dtype) if count else None
        return loss[0]


def add_in_order(vector: Tensor, processes: int, group: Any = None) -> Tensor:
    """The tree's upper levels: each process adds up one piece of the vectors of all, then all get all pieces. As many
    bytes as the usual all-reduce, whose order depends on the number of processes."""
    padded = torch.nn.functional.pad(vector, (0, -len(vector) % processes))
    pieces = torch.empty_like(padded)
    distributed.all_to_all_single(pieces, padded, group=group)
    tree = Tree()
    for piece in pieces.chunk(processes):
        tree.add(piece)
    sums = [torch.empty_like(tree.total) for _ in range(processes)]
    distributed.all_gather(sums, tree.total.contiguous(), group=group)
    return torch.cat(sums)[: len(vector)]
