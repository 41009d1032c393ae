"""Weights: convert a model of another library to one of ours, and back."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config.errors import Problem, did_you_mean
from headway.config.recipe import ModelSpec
from headway.config.settings import read
from headway.interop.families import FAMILIES
from headway.interop.families.rules import Config, Family
from headway.recipes.size import refuse_more_layers
from headway.runs.run import Run
from headway.tasks.abilities import Generates, KeepsReference, can, need


class ImportedWeights(NamedTuple):
    spec: ModelSpec
    model: nn.Module
    length: int  # maximum tokens of a sequence
    unused: list[str]  # their tensors without a counterpart here


def family_of(config: Config) -> Family:
    kind = str(config.get("model_type"))
    if kind not in FAMILIES:
        raise Problem(f"unknown model type {kind[:60]!r}; {did_you_mean(kind, FAMILIES)}")
    return FAMILIES[kind]


def import_weights(config: Config, tensors: dict[str, Tensor]) -> ImportedWeights:
    """The same network, made of our parts."""
    family = family_of(config)
    try:
        spec = read(ModelSpec, vars(family.spec(config)), path=f"config.json of this {config['model_type']}: model.")
        refuse_more_layers(spec, len(tensors), "config.json")
        rules, length = family.rules(config), family.length(config)
        with torch.device("meta"):  # a config may say any size: it has to be that of the tensors
            sizes = family.build(spec, config["vocab_size"], length).named_parameters()
            shapes = {name: weight.shape for name, weight in sizes}
    except KeyError as key:
        raise Problem(f"config.json of this {config['model_type']} lacks {key}") from None
    needed = {name for rule in rules for name in (*rule.theirs, rule.plus) if name}
    if missing := sorted(needed - tensors.keys()):
        raise Problem(f"{len(missing)} tensors of a {config['model_type']} are missing, the first is {missing[0]}")
    weights = {rule.ours: rule.to_ours(tensors) for rule in rules}
    for name, tensor in weights.items():
        if shapes[name] != tensor.shape:
            raise Problem(f"{name} has shape {tuple(tensor.shape)}, but config.json says {tuple(shapes[name])}")
    model = family.build(spec, config["vocab_size"], length).eval()
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)
    assert own.keys() == weights.keys(), own.keys() ^ weights.keys()
    return ImportedWeights(spec, model, length, [name for name in tensors if name not in needed])


def export_weights(config: Config, model: nn.Module) -> dict[str, Tensor]:
    """The tensors of the same network in the other library."""
    own = dict(model.named_parameters())
    tensors: dict[str, Tensor] = {}
    for rule in family_of(config).rules(config):
        tensors |= rule.to_theirs(own[rule.ours].detach())
        if rule.plus:
            tensors[rule.plus] = torch.zeros(config.get("type_vocab_size", 2), own[rule.ours].shape[1])
    return tensors


def network_of(run: Run) -> Any:
    """What is exported: of a policy its decoder, with its adapters merged, and not the reference."""
    model: Any = run.model().cpu()
    return need(run.task, Generates).generator(model).model if can(run.task, KeepsReference) else model
