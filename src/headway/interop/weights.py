"""Weights in and out: a model of another library becomes one of ours, and one of ours becomes theirs."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.config.errors import Problem, did_you_mean
from headway.config.recipe import ModelSpec
from headway.interop.families import FAMILIES
from headway.interop.families.rules import Config, Family


class Taken(NamedTuple):
    spec: ModelSpec
    model: nn.Module
    length: int  # of the longest sequence
    left: list[str]  # their tensors that have no place here


def family_of(config: Config) -> Family:
    kind = str(config.get("model_type"))
    if kind not in FAMILIES:
        raise Problem(f"a model of type {kind!r} is not known here; {did_you_mean(kind, FAMILIES)}")
    return FAMILIES[kind]


def take(config: Config, tensors: dict[str, Tensor]) -> Taken:
    """The same network of our parts."""
    family = family_of(config)
    try:
        spec, rules, length = family.spec(config), family.rules(config), family.length(config)
        model = family.build(spec, config["vocab_size"], length).eval()
    except KeyError as key:
        raise Problem(f"the config of this {config['model_type']} lacks {key}") from None
    wanted = {name for rule in rules for name in (*rule.theirs, rule.plus) if name}
    if missing := sorted(wanted - tensors.keys()):
        raise Problem(f"of a {config['model_type']}, {len(missing)} tensors are missing, the first is {missing[0]}")
    found = {rule.ours: rule.taken(tensors).float() for rule in rules}
    own = dict(model.named_parameters())
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            shapes = f"{tuple(tensor.shape)}, where its config says {tuple(own[name].shape)}"
            raise Problem(f"{name} would be {shapes}")
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    assert own.keys() == found.keys(), own.keys() ^ found.keys()
    return Taken(spec, model, length, [name for name in tensors if name not in wanted])


def give(config: Config, model: nn.Module) -> dict[str, Tensor]:
    """The tensors of the same network as another library names them."""
    own = dict(model.named_parameters())
    found: dict[str, Tensor] = {}
    for rule in family_of(config).rules(config):
        found |= rule.given(own[rule.ours].detach())
        if rule.plus:
            found[rule.plus] = torch.zeros(config.get("type_vocab_size", 2), own[rule.ours].shape[1])
    return found
