"""How far back gradients reach: the norm of d state[last] / d x[last - k] over the distance k.

For a recurrent network this is a product of k Jacobians, and shrinks or grows exponentially; attention reaches every
token in one step. The Frobenius norm is estimated by products with random vectors: for v with independent entries of
variance 1, the mean of |J^T v|^2 is |J|^2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway import recipes
from headway.config.errors import Problem
from headway.data.batch import Batch
from headway.data.sequences import LabelledSequences
from headway.lab.overview import is_run
from headway.lab.plot import Picture, draw, plot_curves
from headway.runs.run import Run
from headway.tasks import Task
from headway.tasks.abilities import Predicts, need

PROBES = 4


@dataclass(frozen=True)
class GradientReach:
    norms: dict[str, list[float]]  # run or recipe -> norms at the distances 0, 1, 2, ...
    picture: Picture


def gradient_reach(names: Sequence[str], length: int | None, picture: Path) -> GradientReach:
    """Of trained runs, or of recipes with their initial weights."""
    norms = {name: gradient_norms(*model_and_data(name), length) for name in names}
    curves = {name: [list(enumerate(each))] for name, each in norms.items()}
    labels = ("distance in tokens", "norm of the gradient")
    return GradientReach(norms, draw(picture, plot_curves, curves, *labels, log_y=True))


def model_and_data(name: str) -> tuple[Any, LabelledSequences]:
    """A trained run's model, or a recipe's before training; and the validation data."""
    if is_run(name):
        run = Run(name)
        need(run.task, Predicts)
        return run.network, next(iter(run.task.splits().validation.values()))
    task = recipes.task(name)
    need(task, Predicts)
    task.prepare()
    torch.manual_seed(task.recipe.train.seed)
    return task.model(), next(iter(task.splits().validation.values()))


def gradient_norms(model: Any, data: LabelledSequences, length: int | None = None, rows: int = 64) -> list[float]:
    """At the distances 0, 1, 2, ..., the root mean square over sequences of ``length`` tokens."""
    longest = int(data.lengths.max())
    length = min(length or int(np.percentile(data.lengths, 75)), longest)
    chosen = np.flatnonzero(data.lengths >= length)[:rows]
    if length < 2:
        raise Problem(f"sequences of {length} tokens are too short to measure gradients over distances")
    device = next(model.parameters()).device
    inputs = data.batch(chosen).inputs[:, :length].to(device)
    return probe(model.encoder, inputs)


def probe(encoder: Any, inputs: Tensor) -> list[float]:
    """Backpropagate random vectors from the last state to the embedding of every token."""
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
        (gradient,) = torch.autograd.grad(last, x, vector, retain_graph=True)
        squares += gradient.square().sum(dim=-1) / PROBES
    encoder.train(training)
    return squares.mean(dim=0).sqrt().flip(0).tolist()


def norms_by_layer(task: Task, model: Any, batch: Batch) -> list[float]:
    """The norm of the loss gradient with respect to the weights of each block."""
    model.zero_grad()
    task.loss(model, batch).mean.backward()
    norms = []
    for block in model.encoder.stack.blocks:
        squares = [weight.grad.square().sum() for weight in block.parameters() if weight.grad is not None]
        norms.append(float(torch.stack(squares).sum().sqrt()))
    model.zero_grad()
    return norms
