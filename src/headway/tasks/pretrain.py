"""Pretrain: self-supervised learning from unlabelled texts, for tasks with few labels.

headway pretrain                                       # on the Python standard library
headway pretrain data.train=reviews.jsonl,more.jsonl data.objective="masked(rate=0.3)"
headway train classify start=runs/pretrain-1 data.train=labelled.csv
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.parts import parse, part
from headway.config.recipe import ModelSpec, Recipe
from headway.config.settings import setting
from headway.data.corpus import Corpus
from headway.data.corruption import CORRUPTIONS, SENTINELS, Corruption, Symbols
from headway.data.examples import Reading
from headway.data.files import Progress, silent
from headway.data.packed_batch import PackedPairBatch, PackedTokenBatch
from headway.data.packed_texts import PackedTexts
from headway.generation.generator import Generator
from headway.generation.prompts import PromptReader
from headway.metrics import perplexity
from headway.models.build import (
    build_decoder,
    build_detector,
    build_encoder_decoder,
    build_masked,
    build_next,
    build_prefix,
)
from headway.nn.packing import Packing
from headway.objectives.likelihood import binary_cross_entropy, cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Ability, Fills, Generates, Pretrains, ReadsPrompts
from headway.tasks.embedding import Body, EmbedsTokens
from headway.tasks.file_task import test_or_validation
from headway.tasks.limited import Limited, LimitedData
from headway.tasks.multilingual import MultilingualData
from headway.tasks.task import Splits
from headway.tasks.token_baselines import ComparesHiddenTokens
from headway.tasks.unlabelled import Unlabelled, UnlabelledData
from headway.text.framing import Framing

Metrics = dict[str, Tally]  # of a batch; the first is the loss


def token_metrics(logits: Tensor, batch: PackedTokenBatch) -> Metrics:
    """Of the tokens to predict."""
    right = (logits.argmax(dim=-1) == batch.targets).sum()
    return {"loss": cross_entropy(logits, batch.targets), "accuracy": Tally(right, batch.count)}


def masked(model: nn.Module, batch: PackedTokenBatch, corruption: Any) -> Metrics:
    return token_metrics(model(batch.inputs, batch.packing, batch.logit_positions), batch)


def next_sentence(model: Any, batch: PackedTokenBatch, corruption: Any) -> Metrics:
    logits, next_logits = model.both(batch.inputs, batch.packing, batch.logit_positions)
    assert batch.sequence_labels is not None
    tokens, next_loss = token_metrics(logits, batch), cross_entropy(next_logits, batch.sequence_labels)
    right = (next_logits.argmax(dim=-1) == batch.sequence_labels).sum()
    return {
        "loss": Tally(tokens["loss"].total + corruption.weight * next_loss.total, batch.count),
        "accuracy": tokens["accuracy"],
        "token_loss": tokens["loss"],
        "next_accuracy": Tally(right, len(batch.sequence_labels)),
    }


def replaced(model: Any, batch: PackedTokenBatch, corruption: Any) -> Metrics:
    outputs = model(batch.inputs, batch.packing, batch.logit_positions, batch.targets)
    tokens = token_metrics(outputs.logits, batch)
    real = binary_cross_entropy(outputs.real[:, None], outputs.is_real)
    right = ((outputs.real > 0) == outputs.is_real).sum()
    return {
        "loss": Tally(tokens["loss"].total + corruption.weight * corruption.rate * real.total, batch.count),
        "accuracy": tokens["accuracy"],
        "token_loss": tokens["loss"],
        "real_accuracy": Tally(right, real.count),
    }


def next_token(model: nn.Module, batch: PackedTokenBatch, corruption: Any) -> Metrics:
    return token_metrics(model(batch.inputs, packing=batch.packing, logit_positions=batch.logit_positions), batch)


def spans(model: nn.Module, batch: PackedPairBatch, corruption: Any) -> Metrics:
    packings = batch.source_packing, batch.packing
    return token_metrics(
        model(batch.sources, batch.inputs, logit_positions=batch.logit_positions, packings=packings), batch
    )


def encoder_decoder(spec: ModelSpec, vocabulary: int, length: int) -> nn.Module:
    return build_encoder_decoder(spec, vocabulary + SENTINELS, vocabulary + SENTINELS, length, joint=True)


def detector(spec: ModelSpec, vocabulary: int, length: int) -> nn.Module:
    return build_detector(spec, vocabulary, length, layers=max(spec.layers // 3, 1))


class Kind(NamedTuple):
    build: Callable[[ModelSpec, int, int], nn.Module]
    metrics: Callable[[Any, Any, Any], Metrics]
    generates: bool = False  # whether it generates text,
    fills: bool = False  # or fills in masked tokens
    sees_prompt: bool = False  # whether attention within the prompt is bidirectional


KINDS = {
    "masked": Kind(build_masked, masked, fills=True),
    "replaced": Kind(detector, replaced),
    "next": Kind(build_next, next_sentence, fills=True),
    "span": Kind(encoder_decoder, spans),
    "causal": Kind(build_decoder, next_token, generates=True),
    "prefix": Kind(build_prefix, next_token, generates=True, sees_prompt=True),
}


PROMPT = 16  # tokens of a prompt
EXTRA_TOKENS = 3  # special tokens that a corruption may add to a sequence


@dataclass(frozen=True)
class PretrainData(MultilingualData, LimitedData, UnlabelledData):
    window: int = setting(512, "maximum tokens per sequence; longer texts are split", least=2)
    objective: str = setting("masked", "pre-training objective")


class Pretrain(Limited, Unlabelled, Pretrains, Generates, Fills, ReadsPrompts, EmbedsTokens, ComparesHiddenTokens):
    settings = PretrainData
    encoding_settings = frozenset({"window", "objective"}) | Limited.mixing_settings
    metric_names = ("loss", "accuracy")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.objective": CORRUPTIONS, **Limited.tables}
    example = "The [MASK] "

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.corrupt: Corruption = part(CORRUPTIONS, recipe.data.objective, "data.objective")
        name, _ = parse(recipe.data.objective, "data.objective")
        self.kind = KINDS[name]

    def abilities(self) -> list[type[Ability]]:
        """They depend on the objective."""
        known = {
            Generates: self.kind.generates,
            Fills: self.kind.fills,
            ReadsPrompts: self.kind.generates or self.kind.fills,
        }
        return [each for each in super().abilities() if known.get(each, True)]

    @property
    def is_causal(self) -> bool:
        return self.kind.generates or self.recipe.model.causal

    @cached_property
    def special(self) -> Symbols:
        index, tokenizer = self.tokenizer.vocabulary.index, self.tokenizer
        special = {"mask": "[MASK]", "cls": "[CLS]", "sep": "[SEP]", "eos": "<eos>"}
        numbers = {use: index[name] for use, name in special.items()}
        return Symbols(len(tokenizer), np.flatnonzero(~tokenizer.is_special), tokenizer.begins_word, **numbers)

    def make_splits(self) -> Splits[PackedTexts]:
        parts = self.parts | {"train": self.limited(self.parts["train"])}
        sets = {use: self.texts(self.train, use, rows) for use, rows in parts.items()}
        for use in self.files.keys() - {"train"}:
            sets[use] = self.texts(self.source(self.files[use]), use)
        notes = [*self.notes(), *self.language_notes(sets)]
        train = replace(sets["train"], mixture=self.mixture if self.is_multilingual else None)
        if self.is_one_text and self.recipe.data.max_tokens is not None:
            train = replace(train, sizes=np.minimum(train.sizes, self.recipe.data.max_tokens))
        return Splits(train, self.old_and_new(sets["validation"]), test_or_validation(sets), tuple(notes))

    @property
    def reading(self) -> Reading:
        return replace(super().reading, language=self.recipe.data.language)

    def texts(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> PackedTexts:
        """The texts of these rows (None: all)."""
        whole = self.whole(corpus, use, rows)
        seed = self.recipe.train.seed if use == "train" else 0
        options = {"window": self.recipe.data.window, "corrupt": self.corrupt, "symbols": self.special, "seed": seed}
        return PackedTexts(whole.tokens, whole.starts, whole.sizes, whole.key, whole.languages, **options)

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, PackedTexts]:
        return {path.name: self.texts(Corpus(path, self.reading, progress), "test")}

    @property
    def context_length(self) -> int:
        return int(self.recipe.data.window)

    def model(self) -> nn.Module:
        return self.kind.build(self.recipe.model, self.vocab_size, self.recipe.data.window + EXTRA_TOKENS)

    def body(self, model: Any) -> Body:
        return model if self.kind.generates else model.encoder

    def loss(self, model: nn.Module, batch: PackedTokenBatch) -> Tally:
        return self.kind.metrics(model, batch, self.corrupt)["loss"]

    def metrics(self, model: nn.Module, batch: PackedTokenBatch) -> dict[str, Tally]:
        return self.kind.metrics(model, batch, self.corrupt)

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means.get("token_loss", means["loss"]))}

    def generator(self, model: Any) -> Generator:
        return Generator(model, self.tokenizer, None, None, self.recipe.data.window)

    def framing(self) -> Framing:
        imported = self.tokenizer.roles is not None  # its text is between [CLS] and [SEP], as in its training
        around = ((self.special.cls,), (self.special.sep,)) if imported else ((), ())
        return Framing(self.tokenizer, *around)

    def prompts(self, count: int) -> list[str]:
        """The openings of held-out texts."""
        data, *_ = self.splits().validation.values()
        rows = replace(data.take(np.arange(min(count, len(data)))), sizes=np.minimum(data.sizes, PROMPT)[:count])
        return [self.tokenizer.decode(tokens) for tokens in rows.lists()]

    def prompt_reader(self) -> PromptReader:
        mask = self.special.mask if self.kind.fills else None
        return PromptReader(self.tokenizer, self.recipe.data.window, mask, self.kind.sees_prompt)

    def masked_tokens(self, text: str) -> list[int]:
        parts = re.split(r"(?<!\s)\s*\[MASK\]", text)  # the space before a word is part of its token
        encoded = [each.tolist() for each in self.tokenizer.encode(parts)]
        tokens = [token for part in encoded for token in (*part, self.special.mask)][:-1]
        framing = self.framing()
        return [*framing.first, *tokens, *framing.last]

    @torch.inference_mode()
    def fill(self, model: Any, text: str, count: int) -> list[list[tuple[str, float]]]:
        tokens = self.masked_tokens(text)
        if self.special.mask not in tokens:
            raise Problem(f"there is no [MASK] in {text!r}: write [MASK] where a word is missing")
        device = next(model.parameters()).device
        row = torch.tensor([tokens], device=device)
        positions = (row[0] == self.special.mask).nonzero()[:, 0]
        logits = model(row, Packing.of(torch.tensor([len(tokens)], device=device)), positions)
        probabilities, best = logits.float().softmax(dim=-1).topk(min(count, logits.shape[-1]))
        return [
            [(self.tokenizer.decode([token]), probability) for token, probability in zip(*candidates, strict=True)]
            for candidates in zip(best.tolist(), probabilities.tolist(), strict=True)
        ]

    @property
    def chance(self) -> float:
        return math.log(self.vocab_size)
