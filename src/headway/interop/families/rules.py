"""Rules that say which tensor of another library's model is which of ours; they can be read both ways."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.parts import parse
from headway.config.recipe import ModelSpec
from headway.models.build import build_encoder_decoder

Config = Mapping[str, Any]
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Rule:
    ours: str
    theirs: tuple[str, ...]  # one below another
    rows: tuple[int, ...] = ()  # of each, if there are several
    scales: tuple[float, ...] = ()  # what each is multiplied by to become ours
    turned: bool = False
    skipped: int = 0  # rows of theirs that come before ours
    plus: str = ""  # a table of which the first row is added to each of ours
    flat: bool = False  # theirs is a row, ours its numbers

    def taken(self, tensors: Tensors) -> Tensor:
        """Ours, of theirs."""
        found = [tensors[name] for name in self.theirs]
        found = [tensor * scale for tensor, scale in zip(found, self.scales or [1.0] * len(found), strict=True)]
        whole = torch.cat([tensor.T if self.turned else tensor for tensor in found])[self.skipped :]
        whole = whole + tensors[self.plus][0] if self.plus else whole
        return whole.flatten() if self.flat else whole

    def given(self, tensor: Tensor) -> Tensors:
        """Theirs, of ours."""
        whole = torch.cat([tensor.new_zeros(self.skipped, *tensor.shape[1:]), tensor]) if self.skipped else tensor
        whole = whole[None] if self.flat else whole
        found = whole.split(list(self.rows)) if self.rows else [whole]
        scales = self.scales or [1.0] * len(found)
        return {
            name: (each.T if self.turned else each).div(scale).contiguous()
            for name, each, scale in zip(self.theirs, found, scales, strict=True)
        }


class Family(NamedTuple):
    spec: Callable[[Config], ModelSpec]
    config: Callable[[ModelSpec, int, int], dict[str, Any]]  # of a network of about this shape, and its two sizes
    rules: Callable[[Config], list[Rule]]
    build: Callable[[ModelSpec, int, int], nn.Module]
    length: Callable[[Config], int]  # of the longest sequence


def same(ours: str, theirs: str, *kinds: str, **how: Any) -> list[Rule]:
    """A rule for the weight and one for the bias, or for what is named."""
    return [Rule(f"{ours}.{kind}", (f"{theirs}.{kind}",), **how) for kind in kinds or ("weight", "bias")]


def stacked(ours: str, theirs: list[str], rows: list[int], *kinds: str, scales: tuple[float, ...] = ()) -> list[Rule]:
    return [
        Rule(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs), tuple(rows), scales)
        for kind in kinds or ("weight", "bias")
    ]


def wanted(config: Config, **values: Any) -> None:
    """Settings of theirs that have no counterpart here."""
    for key, value in values.items():
        if config.get(key, value) != value:
            raise Problem(f"a model with {key}={config[key]!r} has no counterpart here: {value!r} has")


def activation(name: str) -> str:
    known = {"gelu_new": "gelu(tanh=True)", "gelu": "gelu", "relu": "relu", "swish": "silu", "silu": "silu"}
    if name not in known:
        raise Problem(f"the activation {name!r} has no counterpart here; known are {', '.join(known)}")
    return known[name]


def name_of_activation(feedforward: str) -> str:
    name, options = parse(feedforward, "model.feedforward")
    return "gelu_new" if name == "gelu" and options.get("tanh") else name


def option(text: str, name: str, otherwise: Any) -> Any:
    """Of a part that is named with its options."""
    return parse(text, "")[1].get(name, otherwise)


def translator(spec: ModelSpec, vocabulary: int, length: int) -> nn.Module:
    return build_encoder_decoder(spec, vocabulary, vocabulary, length, joint=True)
