"""Shared by sequence-to-sequence tasks: loss, metrics, and scores of the generated translations.

Training uses teacher forcing: the decoder reads the right tokens. With ``data.scheduled_sampling`` it reads its own
predictions for that share of them (Bengio et al. 2015, https://arxiv.org/abs/1506.03099; in two passes as Mihaylova &
Martins 2019, https://arxiv.org/abs/1906.07651).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headway.config.parts import part
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import PairBatch
from headway.data.pairs import Pairs
from headway.generation import Beam
from headway.generation.translator import Translator
from headway.metrics import perplexity
from headway.metrics.bleu import corpus_scores
from headway.metrics.classification import measured
from headway.models.build import build_encoder_decoder
from headway.objectives.likelihood import OBJECTIVES, Objective, cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates, Tokenizes, Translates
from headway.tasks.embedding import EmbedsTokens
from headway.tasks.pair_baselines import ComparesTranslations
from headway.tasks.task import Task
from headway.text.tokenizer import REVERSIBLE, Tokenizer


@dataclass(frozen=True)
class Seq2SeqData:
    """Settings of all sequence-to-sequence tasks."""

    max_length: int = setting(
        256, "maximum tokens per side, with <eos>; longer pairs are left out of training", least=2, was="longest"
    )
    objective: str = setting("likelihood", "training objective")
    scheduled_sampling: float = setting(
        0.0, "share of the decoder's inputs replaced by its own predictions", least=0, below=1, was="own_guesses"
    )
    beam: int = setting(5, "beam width", least=1)
    length_penalty: float = setting(1.0, "length penalty: scores are divided by length to this power")


class Seq2Seq(Task, Translates, Generates, EmbedsTokens, Tokenizes, ComparesTranslations):
    metric_names: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "chrf", "bleu")
    joint: bool  # whether both sides share one vocabulary
    test_only_metrics = ("exact", "chrf", "bleu")
    takes_metrics = additional_are_test_only = True
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "data.objective": OBJECTIVES,
        "data.tokenizer": REVERSIBLE,
    }

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.objective: Objective = part(OBJECTIVES, recipe.data.objective, "data.objective")

    @property
    @abstractmethod
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Source and target."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Vocabulary sizes of source and target; upper bounds until the tokenizers are known."""

    @property
    def context_length(self) -> int:
        return int(self.recipe.data.max_length)

    def export_tokens(self, folder: Path) -> dict[str, Any]:
        for name, tokenizer in zip(("source", "target"), self.tokenizers, strict=True):
            tokenizer.save(folder / f"{name}-tokenizer.json")
        return {"first_token": "<sos>", "last_token": "<eos>"}

    def special(self, symbol: str) -> int:
        return self.tokenizers[1].vocabulary.index[symbol]

    def model(self) -> nn.Module:
        return build_encoder_decoder(self.recipe.model, *self.sizes, self.recipe.data.max_length, self.joint)

    def loss(self, model: nn.Module, batch: PairBatch) -> Tally:
        inputs, times = batch.inputs, self.objective.times
        if self.recipe.data.scheduled_sampling and model.training:
            inputs = self.with_predictions(model, batch)
        sources, lengths = batch.sources, batch.source_lengths
        if times > 1:
            sources, inputs = sources.repeat(times, 1), inputs.repeat(times, 1)
            lengths = None if lengths is None else lengths.repeat(times)
        return self.objective(*logits_of(model, batch, sources, inputs, lengths, times))

    @torch.no_grad()
    def with_predictions(self, model: nn.Module, batch: PairBatch) -> Tensor:
        """The decoder's inputs, a share of them replaced by the model's predictions."""
        predicted = model(batch.sources, batch.inputs, batch.source_lengths).argmax(dim=-1)[:, :-1]
        right = batch.inputs[:, 1:]
        replaced = torch.rand(right.shape, device=right.device) < self.recipe.data.scheduled_sampling
        return torch.cat([batch.inputs[:, :1], torch.where(replaced, predicted, right)], dim=1)

    def metrics(self, model: nn.Module, batch: PairBatch) -> dict[str, Tally]:
        logits, targets, weights = logits_of(model, batch, batch.sources, batch.inputs, batch.source_lengths)
        right = logits.argmax(dim=-1) == targets
        right = right if weights is None else right & weights
        loss = cross_entropy(logits, targets, weights)
        return {"loss": loss, "accuracy": Tally(right.sum(), loss.count)}

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means["loss"])}

    def generator(self, model: Any) -> Translator:
        data = self.recipe.data
        source, target = self.tokenizers
        beam = Beam(data.beam, length_penalty=data.length_penalty)
        bos, eos = self.special("<sos>"), self.special("<eos>")
        return Translator(model, target, bos, eos, data.max_length, source=source, beam=beam)

    def tokenizer_of(self, side: str) -> Tokenizer:
        source, target = self.tokenizers
        return source if side.startswith("encoder.") else target

    def test_metrics(self, model: nn.Module, data: Pairs) -> dict[str, float]:
        return self.scores(self.translations(model, data), data.references)

    def translations(self, model: nn.Module, data: Pairs) -> list[str]:
        translator = self.generator(model)
        return [translator.text_of(each) for each in translator.translate_tokens(data.sources_of())]

    def scores(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """BLEU and chrF of translations, and the share of exact matches."""
        exact = sum(text == reference for text, reference in zip(texts, references, strict=True)) / len(texts)
        scores = {each.name: each.score for each in corpus_scores(texts, [references])}
        more = measured(self.additional_metrics, references, texts)
        return {"exact": exact, "chrf": scores["chrf"], "bleu": scores["bleu"], **more}

    @property
    def floor(self) -> float:  # type: ignore[override]
        """With label smoothing the entropy of the smoothed target."""
        share, size = self.objective.smoothing, self.sizes[1]
        right, other = 1 - share + share / size, share / size
        return -right * math.log(right) - ((size - 1) * other * math.log(other) if share else 0.0)

    @property
    def chance(self) -> float:
        return math.log(self.sizes[1])


def logits_of(
    model: nn.Module, batch: PairBatch, sources: Any, inputs: Tensor, lengths: Tensor | None, times: int = 1
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Logits, targets, and which of them count. On the CPU nothing is computed for padding; on a GPU the number of real
    tokens would cost a synchronization."""
    if batch.weights is None or inputs.device.type != "cpu":
        return model(sources, inputs, lengths), batch.targets, batch.weights
    logit_positions = batch.weights.repeat(times, 1)
    return model(sources, inputs, lengths, logit_positions), batch.targets[batch.weights], None
