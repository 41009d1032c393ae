"""Classifiers of the transformers library: the bodies of the families, with a head for labels.

BERT's reads its first token through a layer with a tanh; GPT-2's and Llama's read their last token, and have no bias.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config.recipe import ModelSpec
from headway.interop.families.rules import Rule, Tensors, same


class Head(NamedTuple):
    architecture: str
    pooling: str
    causal: bool
    inside: str  # of our rules for the family: the prefix of the body in a classifier
    rules: list[Rule]


HEADS: dict[str, Head] = {
    "bert": Head(
        "BertForSequenceClassification",
        "pooler",
        False,
        "",
        [*same("pooling.project", "bert.pooler.dense"), *same("head", "classifier")],
    ),
    "gpt2": Head("GPT2ForSequenceClassification", "last", True, "encoder.", same("head", "score", "weight")),
    "llama": Head("LlamaForSequenceClassification", "last", True, "encoder.", same("head", "score", "weight")),
}


def misfits_of_head(family: str, spec: ModelSpec, outputs: int, labels: int) -> list[str]:
    head = HEADS[family]
    misfits = [] if spec.pooling == head.pooling else [f"model.pooling={head.pooling}"]
    misfits += [] if spec.causal == head.causal else [f"model.causal={str(head.causal).lower()}"]
    return misfits if outputs == labels else [*misfits, "an output for each label"]


def rules_of_classifier(family: str, rules: list[Rule]) -> list[Rule]:
    """Those of the body, by the names in a classifier, and those of the head."""
    head = HEADS[family]
    body = [rule for rule in rules if rule.ours.split(".")[0] not in ("head", "decoder")]
    return [*(replace(rule, ours=f"{head.inside}{rule.ours}") for rule in body), *head.rules]


def config_of_classifier(family: str, labels: list[str]) -> dict[str, Any]:
    names = {str(number): label for number, label in enumerate(labels)}
    ids = {label: number for number, label in enumerate(labels)}
    return {"architectures": [HEADS[family].architecture], "id2label": names, "label2id": ids}


def tensors_of_classifier(family: str, rules: list[Rule], model: nn.Module) -> Tensors:
    own: dict[str, Tensor] = {name: weight.detach() for name, weight in model.named_parameters()}
    if HEADS[family].causal:
        own |= without_bias(own)
    tensors: Tensors = {}
    for rule in rules_of_classifier(family, rules):
        tensors |= rule.to_theirs(own[rule.ours])
        if rule.plus:
            tensors[rule.plus] = torch.zeros(2, own[rule.ours].shape[1])
    return tensors


def without_bias(own: dict[str, Tensor]) -> dict[str, Tensor]:
    """A bias of the head becomes a part of that of the norm before it, which nothing else reads."""
    norm = "encoder.stack.norm.bias"
    if norm not in own:
        return {}
    return {norm: own[norm] + torch.linalg.pinv(own["head.weight"]) @ own["head.bias"]}
