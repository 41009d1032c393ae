"""Shared by all tasks that classify texts."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem, is_unicode
from headway.config.recipe import Recipe
from headway.data.batch import LabelledBatch
from headway.data.examples import Reading, examples
from headway.data.files import Progress, silent
from headway.data.packed_batch import PackedLabelledBatch
from headway.data.sequences import LabelledSequences
from headway.metrics.classification import LabelMetric, Predictions, accuracy, measured, report
from headway.models.build import build_classifier
from headway.objectives.likelihood import binary_cross_entropy, cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Embeds, Predicts
from headway.tasks.label_baselines import ComparesLabels
from headway.tasks.task import Evaluation, Prediction, Task
from headway.training.sharing import ALONE, Sharing


class Readout(NamedTuple):
    """The number of outputs for a number of classes, and how outputs become a loss and probabilities (B, classes)."""

    outputs: Callable[[int], int]
    loss: Callable[[Tensor, Tensor], Tally]
    probabilities: Callable[[Tensor], Tensor]


def no_and_yes(logits: Tensor) -> Tensor:
    return torch.cat([-logits, logits], dim=-1).sigmoid()  # 1 minus a probability near 1 would be exactly 0


SOFTMAX = Readout(lambda classes: classes, cross_entropy, lambda logits: logits.softmax(dim=-1))
SIGMOID = Readout(lambda classes: 1, binary_cross_entropy, no_and_yes)  # one logit, for the second of two classes


@torch.inference_mode()
def outputs_of(function: Callable[..., Tensor], data: LabelledSequences, model: nn.Module, width: int) -> Tensor:
    """(N, width): a function of the model for all sequences, on the CPU."""
    device = next(model.parameters()).device
    outputs = torch.empty(len(data), width)
    for rows, batch in data.batches():
        outputs[rows] = function(*batch.to(device).model_inputs).float().cpu()
    return outputs


class Labelling(Task, Predicts, Embeds, ComparesLabels):
    """A subclass encodes texts as sequences, and sets ``vocab_size`` and ``length`` (maximum tokens per
    sequence)."""

    metric_names = ("loss", "accuracy")
    takes_metrics = True
    columns = ("text", "label")
    vocab_size: int

    def __init__(self, recipe: Recipe, labels: list[str], readout: Readout):
        super().__init__(recipe)
        self.labels, self.readout = labels, readout

    @property
    def has_cls(self) -> bool:  # type: ignore[override]
        return self.recipe.model.pooling == "cls"

    @property
    def context_length(self) -> int:
        return self.length

    def about_outputs(self) -> dict[str, Any]:
        """What a user of the exported model must know."""
        return {"labels": self.labels, "first_token": "[CLS]" if self.has_cls else None, "longest": self.length}

    @property
    def chance(self) -> float:
        return math.log(len(self.labels))

    def model(self) -> nn.Module:
        outputs = self.readout.outputs(len(self.labels))
        return build_classifier(self.recipe.model, self.vocab_size, self.length + self.has_cls, outputs)

    def loss(self, model: nn.Module, batch: LabelledBatch | PackedLabelledBatch) -> Tally:
        return self.readout.loss(model(*batch.model_inputs), batch.targets)

    def metrics(self, model: nn.Module, batch: LabelledBatch | PackedLabelledBatch) -> dict[str, Tally]:
        return self.tallies(model(*batch.model_inputs), batch.targets)

    def tallies(self, logits: Tensor, targets: Tensor) -> dict[str, Tally]:
        predicted = self.probabilities(logits).argmax(dim=-1)
        return {"loss": self.readout.loss(logits, targets), "accuracy": accuracy(predicted, targets)}

    def probabilities(self, logits: Tensor) -> Tensor:
        return self.readout.probabilities(logits)

    def logits_of(self, model: nn.Module, data: LabelledSequences) -> Tensor:
        return outputs_of(model, data, model, self.readout.outputs(len(self.labels)))

    def tokens_in(self, text: str) -> list[str]:
        spans, kept = self.spans(text), self.sequences([text]).kept_tokens(0)
        return ["[CLS]"] * self.has_cls + [text[slice(*spans[index])] for index in kept]

    def embed(self, model: Any, texts: Sequence[str]) -> np.ndarray:
        """What the head reads: the pooled states."""
        self.refuse_unreadable(texts)
        return outputs_of(model.pooled, self.sequences(texts), model, self.recipe.model.width).numpy()

    def measure(self, model: nn.Module, data: Any, sharing: Sharing = ALONE) -> dict[str, float]:
        """Additional metrics need all predictions: each process makes them itself."""
        if not self.additional_metrics:
            return super().measure(model, data, sharing)
        training = model.training
        means = self.evaluate(model, data).metrics
        model.train(training)
        return means

    def evaluate(self, model: nn.Module, data: LabelledSequences) -> Evaluation:
        """Metrics and predictions in one pass."""
        model.eval()
        logits = self.logits_of(model, data).double()
        tallies = self.tallies(logits, torch.from_numpy(data.labels))
        means = {name: tally.detach_cpu().mean.item() for name, tally in tallies.items()} | {"examples": len(data)}
        predictions = self.predictions_in(logits, data)
        names = ([self.labels[index] for index in each] for each in (predictions.targets, predictions.predicted))
        means |= measured(self.additional_metrics, *names)
        return Evaluation(means, predictions, report(predictions, self.labels))

    @property
    def label_metrics(self) -> Mapping[str, LabelMetric]:
        return self.additional_metrics

    def predictions_of(self, model: nn.Module, data: LabelledSequences) -> Predictions:
        return self.predictions_in(self.logits_of(model, data).double(), data)

    def predictions_in(self, logits: Tensor, data: LabelledSequences) -> Predictions:
        return Predictions.of(self.probabilities(logits).numpy(), data.labels, data.key)

    def refuse_unreadable(self, texts: Sequence[str]) -> None:
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise Problem(f"text {number} is empty: there is nothing to classify")
            if not is_unicode(text):
                raise Problem(f"text {number} is not valid UTF-8")

    def predict(self, model: nn.Module, texts: Sequence[str]) -> list[Prediction]:
        self.refuse_unreadable(texts)
        rows = self.probabilities(self.logits_of(model, self.sequences(texts)))
        return [self.prediction(text, row) for text, row in zip(texts, rows.tolist(), strict=True)]

    def prediction(self, text: str, probabilities: list[float]) -> Prediction:
        best = max(probabilities)
        label = self.labels[probabilities.index(best)]
        return Prediction(text, label, best, dict(zip(self.labels, probabilities, strict=True)))

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, LabelledSequences]:
        rows = list(examples(path, Reading(), progress=progress))
        unknown = next((each for each in rows if each.label not in self.labels), None)
        if unknown is not None:
            known = ", ".join(self.labels)
            raise Problem(f"{path}, line {unknown.line}: unknown label {unknown.label!r}; the labels are {known}")
        labels = [self.labels.index(each.label) for each in rows]
        return {path.name: self.sequences([each.text for each in rows], labels)}
