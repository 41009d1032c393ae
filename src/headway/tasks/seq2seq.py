"""What tasks share whose model reads a text and writes another: the loss, the metrics, the scores of what it writes.

In training the decoder is given the right tokens so far (teacher forcing). With ``data.scheduled_sampling``, that share of
them is what the model itself would have said (scheduled sampling: Bengio et al. 2015, https://arxiv.org/abs/1506.03099;
in two passes as Mihaylova & Martins 2019, https://arxiv.org/abs/1906.07651).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
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
from headway.metrics.bleu import overlaps
from headway.models.build import build_encoder_decoder
from headway.objectives.likelihood import cross_entropy
from headway.objectives.smoothing import OBJECTIVES, Objective
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates, Tokenizes, Translates
from headway.tasks.task import Task
from headway.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Seq2SeqData:
    """The settings that all of them have."""

    max_length: int = setting(
        256, "tokens of a side, its end included; longer pairs are left out of training", least=2, was="longest"
    )
    objective: str = setting("likelihood", "what is trained for")
    scheduled_sampling: float = setting(
        0.0, "share of the given tokens that are the model's own guesses", least=0, below=1, was="own_guesses"
    )
    beam: int = setting(5, "width of the search in which translations are found", least=1)
    length_penalty: float = setting(1.0, "their scores are divided by their length to this power")


class Seq2Seq(Task, Translates, Generates, Tokenizes):
    metric_names: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "chrf", "bleu")
    joint: bool  # whether both sides have the same tokens
    test_only_metrics = ("exact", "chrf", "bleu")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.objective": OBJECTIVES}

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.objective: Objective = part(OBJECTIVES, recipe.data.objective, "data.objective")

    @property
    @abstractmethod
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Of the source and of the target."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Of their vocabularies; at most, as long as they are not known."""

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
            inputs = self.with_guesses(model, batch)
        sources, lengths = batch.sources, batch.source_lengths
        if times > 1:
            sources, inputs = sources.repeat(times, 1), inputs.repeat(times, 1)
            lengths = None if lengths is None else lengths.repeat(times)
        return self.objective(*scored(model, batch, sources, inputs, lengths, times))

    @torch.no_grad()
    def with_guesses(self, model: nn.Module, batch: PairBatch) -> Tensor:
        """The decoder's inputs, of which a share are what the model says in the place of the right token."""
        guesses = model(batch.sources, batch.inputs, batch.source_lengths).argmax(dim=-1)[:, :-1]
        told = batch.inputs[:, 1:]
        own = torch.rand(told.shape, device=told.device) < self.recipe.data.scheduled_sampling
        return torch.cat([batch.inputs[:, :1], torch.where(own, guesses, told)], dim=1)

    def metrics(self, model: nn.Module, batch: PairBatch) -> dict[str, Tally]:
        found, targets, weights = scored(model, batch, batch.sources, batch.inputs, batch.source_lengths)
        right = found.argmax(dim=-1) == targets
        right = right if weights is None else right & weights
        loss = cross_entropy(found, targets, weights)
        return {"loss": loss, "accuracy": Tally(right.sum(), loss.count)}

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700))}

    def generator(self, model: Any) -> Translator:
        data = self.recipe.data
        source, target = self.tokenizers
        beam = Beam(data.beam, length_penalty=data.length_penalty)
        ends = self.special("<sos>"), self.special("<eos>")
        return Translator(model, target, *ends, data.max_length, source=source, beam=beam)

    def tokenizer_of(self, side: str) -> Tokenizer:
        source, target = self.tokenizers
        return source if side.startswith("encoder.") else target

    def test_metrics(self, model: nn.Module, data: Pairs) -> dict[str, float]:
        """BLEU and chrF of what it writes, and how often that is right to the letter."""
        translator = self.generator(model)
        found = translator.translate_tokens(data.sources_of())
        texts = [translator.text_of(each) for each in found]
        exact = sum(text == reference for text, reference in zip(texts, data.references, strict=True)) / len(data)
        scores = {each.name: each.score for each in overlaps(texts, [data.references])}
        return {"exact": exact, "chrf": scores["chrf"], "bleu": scores["bleu"]}

    @property
    def floor(self) -> float:  # type: ignore[override]
        """A target of which a share is spread over all tokens is never quite met: its entropy is left."""
        share, size = self.objective.smoothing, self.sizes[1]
        right, other = 1 - share + share / size, share / size
        return -right * math.log(right) - ((size - 1) * other * math.log(other) if share else 0.0)

    @property
    def chance(self) -> float:
        return math.log(self.sizes[1])


def scored(
    model: nn.Module, batch: PairBatch, sources: Any, inputs: Tensor, lengths: Tensor | None, times: int = 1
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scores, targets, and which of them count. On a CPU nothing is worked out for padding; how much of it there is, a
    GPU would have to be asked."""
    if batch.weights is None or inputs.device.type != "cpu":
        return model(sources, inputs, lengths), batch.targets, batch.weights
    logit_positions = batch.weights.repeat(times, 1)
    return model(sources, inputs, lengths, logit_positions), batch.targets[batch.weights], None
