"""Rules: which tensor of another library's model is which of ours; they work in both directions."""

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
    theirs: tuple[str, ...]  # concatenated
    rows: tuple[int, ...] = ()  # of each, if there are several
    scales: tuple[float, ...] = ()  # of each, to become ours
    transposed: bool = False
    skipped: int = 0  # rows of theirs before ours
    plus: str = ""  # a table whose first row is added to each of ours
    flat: bool = False  # theirs is (1, n), ours (n,)

    def to_ours(self, tensors: Tensors) -> Tensor:
        tensors = {name: tensors[name].float() for name in (*self.theirs, self.plus) if name}  # files may be in half
        parts = [tensors[name] for name in self.theirs]
        parts = [tensor * scale for tensor, scale in zip(parts, self.scales or [1.0] * len(parts), strict=True)]
        whole = torch.cat([tensor.T if self.transposed else tensor for tensor in parts])[self.skipped :]
        whole = whole + tensors[self.plus][0] if self.plus else whole
        return whole.flatten() if self.flat else whole

    def to_theirs(self, tensor: Tensor) -> Tensors:
        whole = torch.cat([tensor.new_zeros(self.skipped, *tensor.shape[1:]), tensor]) if self.skipped else tensor
        whole = whole[None] if self.flat else whole
        parts = whole.split(list(self.rows)) if self.rows else [whole]
        scales = self.scales or [1.0] * len(parts)
        return {
            name: (part.T if self.transposed else part).div(scale).contiguous()
            for name, part, scale in zip(self.theirs, parts, scales, strict=True)
        }


class Family(NamedTuple):
    spec: Callable[[Config], ModelSpec]
    config: Callable[[ModelSpec, int, int], dict[str, Any]]  # from spec, vocabulary and length
    rules: Callable[[Config], list[Rule]]
    build: Callable[[ModelSpec, int, int], nn.Module]
    length: Callable[[Config], int]  # maximum tokens of a sequence


def same(ours: str, theirs: str, *kinds: str, **how: Any) -> list[Rule]:
    """Rules for the weight and the bias, or for the tensors that are named."""
    return [Rule(f"{ours}.{kind}", (f"{theirs}.{kind}",), **how) for kind in kinds or ("weight", "bias")]


def stacked(ours: str, theirs: list[str], rows: list[int], *kinds: str, scales: tuple[float, ...] = ()) -> list[Rule]:
    return [
        Rule(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs), tuple(rows), scales)
        for kind in kinds or ("weight", "bias")
    ]


def require(config: Config, **values: Any) -> None:
    """Refuse settings of theirs without a counterpart here."""
    for key, value in values.items():
        if config.get(key, value) != value:
            raise Problem(f"a model with {key}={config[key]!r} has no counterpart here, only one with {value!r}")


def activation(name: str) -> str:
    known = {"gelu_new": "gelu(tanh=True)", "gelu": "gelu", "relu": "relu", "swish": "silu", "silu": "silu"}
    if name not in known:
        raise Problem(f"the activation {name!r} has no counterpart here; known are {', '.join(known)}")
    return known[name]


def name_of_activation(feedforward: str) -> str:
    name, options = parse(feedforward, "model.feedforward")
    return "gelu_new" if name == "gelu" and options.get("tanh") else name


def option(text: str, name: str, default: Any) -> Any:
    """An option in the text of a part."""
    return parse(text, "")[1].get(name, default)


def translator(spec: ModelSpec, vocabulary: int, length: int) -> nn.Module:
    return build_encoder_decoder(spec, vocabulary, vocabulary, length, joint=True)
