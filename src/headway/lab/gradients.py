"""How far back gradients reach: the size of d state[last] / d x[last - k] over the distance k.

For a recurrent network this is a product of k Jacobians, and shrinks or grows like a power; attention reaches every
token in one step. The norm is Frobenius's, estimated by products with random vectors: for v with independent entries of
variance 1, the mean of |J^T v|^2 is |J|^2.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.data.batch import Batch
from headway.data.sequences import LabelledSequences
from headway.tasks import Task

PROBES = 4


def gradient_norms(model: Any, data: LabelledSequences, length: int | None = None, most: int = 64) -> list[float]:
    """At the distances 0, 1, 2, ..., the root mean square over sequences; ``length`` is how many tokens they have."""
    longest = int(data.lengths.max())
    length = min(length or int(np.percentile(data.lengths, 75)), longest)
    rows = np.flatnonzero(data.lengths >= length)[:most]
    if length < 2:
        raise Problem(f"sequences of {length} tokens have no distances to look at")
    device = next(model.parameters()).device
    inputs = data.batch(rows).inputs[:, :length].to(device)
    return probe(model.encoder, inputs)


def probe(encoder: Any, inputs: Tensor) -> list[float]:
    """Random vectors are sent back from the last state to the vector of every token."""
    generator = torch.Generator().manual_seed(0)
    training = encoder.training
    encoder.eval()
    with torch.no_grad():
        x = encoder.embedding(inputs)
    x.requires_grad_()
    last = encoder.stack(x)[:, -1]
    squares = torch.zeros(x.shape[:2], device=x.device)
    for _ in range(PROBES):
        vector = torch.randn(last.shape, generator=generator).to(last.device)
        (back,) = torch.autograd.grad(last, x, vector, retain_graph=True)
        squares += back.square().sum(dim=-1) / PROBES
    encoder.train(training)
    return squares.mean(dim=0).sqrt().flip(0).tolist()


def norms_by_layer(task: Task, model: Any, batch: Batch) -> list[float]:
    """The norm of the gradient of the loss by the weights of each block, in their order."""
    model.zero_grad()
    task.loss(model, batch).mean.backward()
    found = []
    for block in model.encoder.stack.blocks:
        squares = [weight.grad.square().sum() for weight in block.parameters() if weight.grad is not None]
        found.append(float(torch.stack(squares).sum().sqrt()))
    model.zero_grad()
    return found
