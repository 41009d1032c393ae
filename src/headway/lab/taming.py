"""What makes deep Transformers train: twelve layers with different norms, warm-ups and optimizers, all else equal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from headway import recipes
from headway.lab.compare import Entry, entrants, train_all
from headway.lab.comparison import Comparison
from headway.lab.gradients import norms_by_layer
from headway.lab.plot import Picture, draw, plot_curves
from headway.runs.pipeline import Reporter

RECIPE = "taming"
VARIANTS = {
    "post, no warm-up": ("model.norm=post", "train.warmup=0"),
    "post, linear warm-up": ("model.norm=post",),
    "post, cosine warm-up": ("model.norm=post", "train.schedule=cosine"),
    "post, RAdam, no warm-up": ("model.norm=post", "train.warmup=0", "train.optimizer=radam"),
    "pre, no warm-up": ("model.norm=pre", "train.warmup=0"),
    "ReZero, no warm-up": ("model.norm=rezero", "train.warmup=0"),
}
FAILED_BELOW = 0.9  # accuracy; guessing has 0.5, counting words 0.75


@dataclass(frozen=True)
class Taming:
    comparison: Comparison
    failed: dict[str, int]  # variant -> number of seeds that diverged or stayed below FAILED_BELOW
    gradients: dict[str, list[float]]  # variant -> gradient norm of each layer at the first step
    picture: Picture


def tame(overrides: Sequence[str], seeds: int, folder: Path, reporter: Reporter) -> Taming:
    entered = {name: Entry(RECIPE, (*overrides, *own)) for name, own in VARIANTS.items()}
    gradients = {name: first_gradients(entry) for name, entry in entered.items()}
    comparison = train_all(entrants(entered, seeds, folder), folder, reporter)
    failed = {
        row.variant: row.diverged + sum(curve[-1][1] < FAILED_BELOW for curve in row.curves) for row in comparison.rows
    }
    curves = {name: [list(enumerate(norms, start=1))] for name, norms in gradients.items()}
    picture = draw(
        folder / "gradients.png", plot_curves, curves, "layer", "gradient norm at the first step", log_y=True
    )
    return Taming(comparison, failed, gradients, picture)


def first_gradients(entry: Entry) -> list[float]:
    """The gradient norm of each layer, with the initial weights and the first batch."""
    task = recipes.task(entry.recipe, entry.overrides)
    spec, train = task.recipe.train, task.splits().train
    torch.manual_seed(spec.seed)
    model = task.model()
    torch.nn.init.normal_(model.head.weight, std=0.02)  # type: ignore[union-attr, arg-type]  # zero weights pass no gradient
    batch = train.batch(train.sampler(spec).rows_at(1))
    return norms_by_layer(task, model, batch)
