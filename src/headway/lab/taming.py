"""What makes deep Transformers train: twelve layers with different norms, warm-ups and optimizers, all else equal."""

from collections.abc import Sequence

import torch

from headway import recipes
from headway.lab.compare import Entry
from headway.lab.gradients import norms_by_layer
from headway.tasks import TASKS

RECIPE = "taming"
VARIANTS = {
    "post, no warm-up": ("model.norm=post", "train.warmup=0"),
    "post, linear warm-up": ("model.norm=post",),
    "post, cosine warm-up": ("model.norm=post", "train.schedule=cosine"),
    "post, RAdam, no warm-up": ("model.norm=post", "train.warmup=0", "train.optimizer=radam"),
    "pre, no warm-up": ("model.norm=pre", "train.warmup=0"),
    "ReZero, no warm-up": ("model.norm=rezero", "train.warmup=0"),
}
FAILED_BELOW = 0.9  # of the answers: guessing has half of them, and counting words three quarters


def tamed(words: Sequence[str]) -> dict[str, Entry]:
    return {name: Entry(RECIPE, (*words, *own)) for name, own in VARIANTS.items()}


def first_gradients(entry: Entry) -> list[float]:
    """The norm of the gradient by the weights of each layer, from the first batch and the first weights."""
    recipe = recipes.load(entry.recipe, entry.words)
    task, spec = TASKS[recipe.task](recipe), recipe.train
    train = task.splits().train
    torch.manual_seed(spec.seed)
    model = task.model()
    torch.nn.init.normal_(model.head.weight, std=0.02)  # type: ignore[union-attr, arg-type]  # at zero it sends none back
    batch = train.batch(train.sampler(spec).rows_at(1))
    return norms_by_layer(task, model, batch)
