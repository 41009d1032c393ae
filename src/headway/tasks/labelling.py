"""What tasks with a text in and a class out share."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.data.batch import LabelledBatch
from headway.data.examples import Reading, examples, is_unicode
from headway.data.files import Progress, silent
from headway.data.packed_batch import PackedLabelledBatch
from headway.data.sequences import LabelledSequences
from headway.metrics.classification import Predictions, accuracy
from headway.models.build import build_classifier
from headway.objectives.likelihood import binary_cross_entropy, cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.task import Answer, Task
from headway.text.vocabulary import Vocabulary


class Readout(NamedTuple):
    """How many scores there are for a number of classes, and how they become a loss and probabilities (B, classes)."""

    outputs: Callable[[int], int]
    loss: Callable[[Tensor, Tensor], Tally]
    probabilities: Callable[[Tensor], Tensor]


def no_and_yes(logits: Tensor) -> Tensor:
    yes = logits.sigmoid()
    return torch.cat([1 - yes, yes], dim=-1)


SOFTMAX = Readout(lambda classes: classes, cross_entropy, lambda logits: logits.softmax(dim=-1))
SIGMOID = Readout(lambda classes: 1, binary_cross_entropy, no_and_yes)  # one score, for the second of two classes


class Classification(Task):
    """A subclass says how texts become sequences, and sets ``symbols``, how many tokens there are, and ``length``, how
    many of them a sequence has at most."""

    metric_names = ("loss", "accuracy")
    symbols: int
    length: int

    def __init__(self, recipe: Recipe, labels: list[str], readout: Readout):
        super().__init__(recipe)
        self.labels, self.readout = labels, readout

    @property
    def has_cls(self) -> bool:
        """Whether a token [CLS] stands in front of every sequence."""
        return self.recipe.model.pooling == "cls"

    @property
    def chance(self) -> float:
        return math.log(len(self.labels))

    @abstractmethod
    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token stands in the text: its first character, and the one after its last."""

    @abstractmethod
    def sequences(self, texts: Sequence[str], labels: list[int]) -> LabelledSequences: ...

    def model(self) -> nn.Module:
        outputs = self.readout.outputs(len(self.labels))
        return build_classifier(self.recipe.model, self.symbols, self.length + self.has_cls, outputs)

    def loss(self, model: nn.Module, batch: LabelledBatch | PackedLabelledBatch) -> Tally:
        return self.readout.loss(model(*batch.model_inputs), batch.targets)

    def metrics(self, model: nn.Module, batch: LabelledBatch | PackedLabelledBatch) -> dict[str, Tally]:
        return self.judge(model(*batch.model_inputs), batch.targets)

    def judge(self, logits: Tensor, targets: Tensor) -> dict[str, Tally]:
        predicted = self.readout.probabilities(logits).argmax(dim=-1)
        return {"loss": self.readout.loss(logits, targets), "accuracy": accuracy(predicted, targets)}

    @torch.inference_mode()
    def logits_of(self, model: nn.Module, data: LabelledSequences) -> Tensor:
        """(N, scores) of each sequence, as numbers of the CPU."""
        device = next(model.parameters()).device
        found = torch.empty(len(data), self.readout.outputs(len(self.labels)))
        for rows, batch in data.batches():
            batch = batch.to(device)
            found[rows] = model(*batch.model_inputs).float().cpu()
        return found

    def probabilities(self, model: nn.Module, data: LabelledSequences) -> np.ndarray:
        """(N, classes): of every class, for each sequence."""
        return self.readout.probabilities(self.logits_of(model, data)).numpy()

    def tested(self, model: nn.Module, data: LabelledSequences) -> tuple[dict[str, float], Predictions]:
        """All metrics, and what was said of each example, in one go."""
        logits = self.logits_of(model, data).double()
        metrics = self.judge(logits, torch.from_numpy(data.labels))
        means = {name: tally.detach_cpu().mean.item() for name, tally in metrics.items()} | {"examples": len(data)}
        return means, Predictions.of(self.readout.probabilities(logits).numpy(), data.labels, data.key)

    def answer(self, model: nn.Module, texts: Sequence[str]) -> list[Answer]:
        for place, text in enumerate(texts, start=1):
            if not text.strip():
                raise Problem(f"text {place} is empty: there is nothing to classify")
            if not is_unicode(text):
                raise Problem(f"text {place} is not in UTF-8, or has half a character in it")
        rows = self.probabilities(model, self.sequences(texts, [0] * len(texts)))
        return [self.answer_of(text, row) for text, row in zip(texts, rows.tolist(), strict=True)]

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, LabelledSequences]:
        found = list(examples(path, Reading(), progress=progress))
        unknown = next((each for each in found if each.label not in self.labels), None)
        if unknown is not None:
            known = ", ".join(self.labels)
            raise Problem(f"{path}, line {unknown.line}: no label {unknown.label!r}; there is {known}")
        labels = [self.labels.index(each.label) for each in found]
        return {path.name: self.sequences([each.text for each in found], labels)}

    def answer_of(self, text: str, probabilities: list[float]) -> Answer:
        best = max(probabilities)
        return Answer(
            text, self.labels[probabilities.index(best)], best, dict(zip(self.labels, probabilities, strict=True))
        )


class Puzzle(Classification):
    """Texts of a few known symbols, made on the spot."""

    def __init__(self, recipe: Recipe, symbols: Sequence[str], labels: list[str], readout: Readout, longest: int):
        super().__init__(recipe, labels, readout)
        self.vocabulary = Vocabulary(symbols, specials=("<pad>", "[CLS]"))
        self.symbols, self.length = len(self.vocabulary), longest

    def symbols_of(self, text: str) -> list[str]:
        """Its characters, unless a subclass has it otherwise."""
        return list(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        found, end = [], 0
        for symbol in self.symbols_of(text):
            start = text.index(symbol, end)
            end = start + len(symbol)
            found.append((start, end))
        return found

    def sequences(self, texts: Sequence[str], labels: list[int]) -> LabelledSequences:
        prefix = self.vocabulary.index["[CLS]"] if self.has_cls else None
        return LabelledSequences.of(
            [self.vocabulary.encode(self.symbols_of(text), text) for text in texts], labels, prefix
        )
