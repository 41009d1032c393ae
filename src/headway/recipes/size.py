"""The size of a recipe's model and of its training, before it is built. All layers of a model are alike: a few of them
tell what thousands are, which would take minutes to build."""

from copy import copy
from dataclasses import replace

import torch
from torch import nn

from headway.config.errors import Problem
from headway.config.limits import free_memory, refuse_beyond
from headway.config.parts import part
from headway.config.recipe import ModelSpec
from headway.tasks.abilities import TrainsItself, can
from headway.tasks.task import Task
from headway.training.optimizers import OPTIMIZERS

FEW = 2
FEW_EMPTY = 100  # layers without weights
BYTES = 4  # of a weight, a gradient or a moment


def with_layers(task: Task, decoder: int, encoder: int) -> Task:
    """The task of the same recipe with at most so many layers."""
    spec = task.recipe.model
    layers = min(spec.layers, decoder)
    beside = min(spec.layers if spec.encoder_layers is None else spec.encoder_layers, encoder)
    own = copy(task)
    own.recipe = replace(task.recipe, model=replace(spec, layers=layers, encoder_layers=beside))
    return own


def small_model(task: Task) -> nn.Module:
    """The recipe's model with the first of its layers only, at no cost: tensors on the meta device have no data. If
    frozen weights are named, all layers have to be there."""
    spec = task.recipe.model
    try:
        with torch.device("meta"):
            return (task if task.recipe.train.freeze else with_layers(task, FEW, FEW)).model()
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise Problem(f"no machine can address a matrix as large as model.width={spec.width} makes it") from None


def weights_of(task: Task, decoder: int, encoder: int) -> tuple[int, int]:
    with torch.device("meta"):
        model = with_layers(task, decoder, encoder).model()
    weights = list(model.parameters())
    return sum(weight.numel() for weight in weights), sum(each.numel() for each in weights if each.requires_grad)


def weight_counts(task: Task) -> tuple[int, int]:
    """The numbers of all weights, and of those that are trained as long as none are frozen."""
    spec = task.recipe.model
    encoder_layers = spec.layers if spec.encoder_layers is None else spec.encoder_layers
    every, trained = few = weights_of(task, FEW, FEW)
    for layers, one_less in ((spec.layers, (FEW - 1, FEW)), (encoder_layers, (FEW, FEW - 1))):
        if layers > FEW:
            fewer = weights_of(task, *one_less)
            every += (layers - FEW) * (few[0] - fewer[0])
            trained += (layers - FEW) * (few[1] - fewer[1])
    return every, trained


def moments_of(optimizer: str) -> int:
    """Numbers that an optimizer keeps for each weight, after a step with a small matrix."""
    small = nn.Linear(2, 2, bias=False, device="cpu")
    small(torch.ones(1, 2, device="cpu")).sum().backward()
    (own, *_) = part(
        OPTIMIZERS, optimizer, "train.optimizer", kind=list, model=small, learning_rate=0.0, weight_decay=0.0
    )
    own.step()
    states = own.state[small.weight].values()
    return sum(isinstance(state, torch.Tensor) and state.shape == small.weight.shape for state in states)


def memory_of(device: str) -> tuple[int | None, str]:
    """The bytes that a process can have there, and the place in words; memory that torch keeps is used again."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved(), "the GPU"
    return (free_memory() if device == "cpu" else None), "this machine"


def refuse_too_large(task: Task, device: str = "cpu", training: bool = True) -> None:
    """Before a model is built, to be used or trained: its weights, and for training their gradients and moments."""
    spec, train = task.recipe.model, task.recipe.train
    every, trained = weight_counts(task)
    what = f"model.layers={spec.layers} and model.width={spec.width} make {every:,} parameters; holding them"
    refuse_beyond(free_memory(), BYTES * every, what)
    if not training or can(task, TrainsItself):  # with neither gradients nor moments
        return
    moments = moments_of(train.optimizer)
    needed = BYTES * (every + (0 if train.freeze else (1 + moments) * trained))
    what = what.replace("holding them", f"training them (weights, gradients, {moments} moments each)")
    free, place = memory_of(device)
    refuse_beyond(free, needed, what, place)


def refuse_more_layers(spec: ModelSpec, tensors: int, where: str) -> None:
    """Before a model is built for tensors that are there: nearly every layer has some of its own."""
    layers = spec.layers + (spec.encoder_layers or 0)
    if layers > tensors + FEW_EMPTY:
        raise Problem(f"{where} says {layers:,} layers, but there are only {tensors:,} tensors")


def refuse_long(task: Task, tokens: int, device: str) -> None:
    """Before training: of the longest sequence, each layer keeps at least its input for the backward pass."""
    spec, train = task.recipe.model, task.recipe.train
    if train.freeze or can(task, TrainsItself):
        return
    needed = (BYTES if train.precision == "fp32" else BYTES // 2) * tokens * spec.width * spec.layers
    what = f"training on {tokens:,} tokens at once with model.layers={spec.layers} and model.width={spec.width}"
    free, place = memory_of(device)
    refuse_beyond(free, needed, what, place)
