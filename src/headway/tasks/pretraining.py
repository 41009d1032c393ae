"""What undoes each corruption of data/corruption, and how it is judged. All models read one row of sequences."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from headway.config.recipe import ModelSpec
from headway.data.corruption import SENTINELS
from headway.data.packed_batch import PackedPairBatch, PackedTokenBatch
from headway.models.build import (
    build_decoder,
    build_detector,
    build_encoder_decoder,
    build_masked,
    build_next,
    build_prefix,
)
from headway.objectives.likelihood import binary_cross_entropy, cross_entropy
from headway.objectives.tally import Tally

Metrics = dict[str, Tally]  # of a batch; the first is the loss


def judged(logits: torch.Tensor, batch: PackedTokenBatch) -> Metrics:
    """Of the tokens that were to be found."""
    right = (logits.argmax(dim=-1) == batch.targets).sum()
    return {"loss": cross_entropy(logits, batch.targets), "accuracy": Tally(right, batch.count)}


def masked(model: nn.Module, batch: PackedTokenBatch, how: Any) -> Metrics:
    return judged(model(batch.inputs, batch.packing, batch.logit_positions), batch)


def next_part(model: Any, batch: PackedTokenBatch, how: Any) -> Metrics:
    logits, answers = model.both(batch.inputs, batch.packing, batch.logit_positions)
    assert batch.sequence_labels is not None
    found, told = judged(logits, batch), cross_entropy(answers, batch.sequence_labels)
    right = (answers.argmax(dim=-1) == batch.sequence_labels).sum()
    whole = Tally(found["loss"].total + how.weight * told.total, batch.count)
    return {
        "loss": whole,
        "accuracy": found["accuracy"],
        "token_loss": found["loss"],
        "next_accuracy": Tally(right, len(batch.sequence_labels)),
    }


def replaced(model: Any, batch: PackedTokenBatch, how: Any) -> Metrics:
    found = model(batch.inputs, batch.packing, batch.logit_positions, batch.targets)
    filled = judged(found.logits, batch)
    real = binary_cross_entropy(found.real[:, None], found.is_real)
    right = ((found.real > 0) == found.is_real).sum()
    whole = Tally(filled["loss"].total + how.weight * how.rate * real.total, batch.count)
    return {
        "loss": whole,
        "accuracy": filled["accuracy"],
        "token_loss": filled["loss"],
        "real_accuracy": Tally(right, real.count),
    }


def following(model: nn.Module, batch: PackedTokenBatch, how: Any) -> Metrics:
    return judged(model(batch.inputs, packing=batch.packing, logit_positions=batch.logit_positions), batch)


def spans(model: nn.Module, batch: PackedPairBatch, how: Any) -> Metrics:
    packings = batch.source_packing, batch.packing
    return judged(model(batch.sources, batch.inputs, logit_positions=batch.logit_positions, packings=packings), batch)


def encoder_decoder(spec: ModelSpec, vocabulary: int, length: int) -> nn.Module:
    return build_encoder_decoder(spec, vocabulary + SENTINELS, vocabulary + SENTINELS, length, joint=True)


def detector(spec: ModelSpec, vocabulary: int, length: int) -> nn.Module:
    return build_detector(spec, vocabulary, length, layers=max(spec.layers // 3, 1))


class Kind(NamedTuple):
    build: Callable[[ModelSpec, int, int], nn.Module]
    judge: Callable[[Any, Any, Any], Metrics]
    writes: bool = False  # whether it goes on from a beginning of a text,
    fills: bool = False  # or fills in what is hidden


KINDS = {
    "masked": Kind(build_masked, masked, fills=True),
    "replaced": Kind(detector, replaced),
    "next": Kind(build_next, next_part, fills=True),
    "span": Kind(encoder_decoder, spans),
    "causal": Kind(build_decoder, following, writes=True),
    "prefix": Kind(build_prefix, following, writes=True),
}
