"""The same function, made of the parts that other libraries have.

- a factor on the rows of an embedding goes into the rows; the head, if it was tied to them, gets a matrix of its own
- sinusoids become a table, as learned positions have
- linear layers without a bias get one of zeros
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from headway.config.parts import parse
from headway.config.recipe import ModelSpec
from headway.models.heads import OwnHead, TiedHead
from headway.models.stack import Stack
from headway.nn.positions import Learned, Sinusoidal


class Network(NamedTuple):
    spec: ModelSpec
    model: Any


def variants(spec: ModelSpec, model: nn.Module, length: int, body: Callable[[Any], Any]) -> Iterator[Network]:
    """The network as it is, then with one change after the other that leaves its function as it is."""
    network = Network(spec, model)
    yield network
    for change in (without_scale, with_table, with_biases):
        changed = change(Network(network.spec, deepcopy(network.model)), length, body)
        if changed is not None:
            network = changed
            yield network


def without_scale(network: Network, length: int, body: Callable[[Any], Any]) -> Network | None:
    spec, model = network
    name, options = parse(spec.embedding, "model.embedding")
    side = body(model)
    inside = dict(side.named_children())
    embedding, head = side.embedding, inside.get("head") or dict(model.named_children()).get("head")
    of_states = type(head) in (nn.Linear, OwnHead, TiedHead)  # it is one of labels, or gets a matrix of its own
    if name not in ("lookup", "onehot") or options.get("scale") == 1.0 or not of_states:
        return None
    if type(head) is TiedHead and "head" in inside:
        own = OwnHead(embedding, spec.width, head.bias is not None)
        own.weight.data.copy_(embedding.table.weight)
        if head.bias is not None:
            own.bias.data.copy_(head.bias)
        side.head, spec = own, replace(spec, head="own" if head.bias is None else "own(bias=True)")
    embedding.table.weight.data.mul_(embedding.scale)
    embedding.scale = 1.0
    return Network(replace(spec, embedding="lookup(scale=1.0)"), model)


def with_table(network: Network, length: int, body: Callable[[Any], Any]) -> Network | None:
    spec, model = network
    stacks = [part for part in model.modules() if type(part) is Stack]
    if len(stacks) > 1 or not isinstance(stacks[0].position, Sinusoidal):
        return None
    learned, places = Learned(spec.width, length), torch.arange(length)
    learned.table.weight.data.copy_(stacks[0].position.embed(torch.zeros(1, length, spec.width), places)[0])
    stacks[0].position = learned
    return Network(replace(spec, position="learned"), model)


def with_biases(network: Network, length: int, body: Callable[[Any], Any]) -> Network | None:
    spec, model = network
    if spec.bias:
        return None
    for stack in (part for part in model.modules() if type(part) is Stack):
        for part in stack.blocks.modules():
            if isinstance(part, nn.Linear) and part.bias is None:
                part.bias = nn.Parameter(torch.zeros(part.out_features), requires_grad=False)
    return Network(replace(spec, bias=True), model)
