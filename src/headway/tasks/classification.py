"""What tasks with a text in and a class out share."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.data.batch import Batch
from headway.data.sequences import Sequences
from headway.errors import Problem
from headway.metrics.classify import accuracy
from headway.models.build import build_classifier
from headway.objectives.likelihood import binary_cross_entropy, cross_entropy
from headway.objectives.tally import Tally
from headway.recipe import Recipe
from headway.tasks.task import Answer, Task
from headway.text.vocab import CLS, Vocabulary


class Readout(NamedTuple):
    """How many scores there are for a number of classes, and how they become a loss and probabilities (B, classes)."""

    scores: Callable[[int], int]
    loss: Callable[[Tensor, Tensor], Tally]
    probabilities: Callable[[Tensor], Tensor]


def no_and_yes(scores: Tensor) -> Tensor:
    yes = scores.sigmoid()
    return torch.cat([1 - yes, yes], dim=-1)


SOFTMAX = Readout(lambda classes: classes, cross_entropy, lambda scores: scores.softmax(dim=-1))
SIGMOID = Readout(lambda classes: 1, binary_cross_entropy, no_and_yes)  # one score, for the second of two classes


class Classification(Task):
    scores = ("loss", "accuracy")

    def __init__(self, recipe: Recipe, characters: str, labels: list[str], readout: Readout, longest: int):
        super().__init__(recipe)
        self.vocabulary, self.labels, self.readout = Vocabulary(characters), labels, readout
        self.prefix = [CLS] if recipe.model.pooling == "cls" else []
        self.length = longest + len(self.prefix)

    @property
    def chance(self) -> float:
        return math.log(len(self.labels))

    def encode(self, texts: list[str], labels: list[int]) -> Sequences:
        return Sequences.of([self.vocabulary.encode(text, self.prefix) for text in texts], labels)

    def model(self) -> nn.Module:
        outputs = self.readout.scores(len(self.labels))
        return build_classifier(self.recipe.model, len(self.vocabulary), self.length, outputs)

    def loss(self, model: nn.Module, batch: Batch) -> Tally:
        return self.readout.loss(model(batch.inputs, batch.lengths), batch.targets)

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tally]:
        scores = model(batch.inputs, batch.lengths)
        predicted = self.readout.probabilities(scores).argmax(dim=-1)
        return {"loss": self.readout.loss(scores, batch.targets), "accuracy": accuracy(predicted, batch.targets)}

    def answer(self, model: nn.Module, texts: list[str]) -> list[Answer]:
        if "" in texts:
            raise Problem(f"text {texts.index('') + 1} is empty: there is nothing to classify")
        device = next(model.parameters()).device
        probabilities: list[list[float]] = []
        for batch in self.encode(texts, [0] * len(texts)).batches(256):
            batch = batch.to(device)
            probabilities += self.readout.probabilities(model(batch.inputs, batch.lengths)).tolist()
        return [
            Answer(text, self.labels[row.index(max(row))], max(row))
            for text, row in zip(texts, probabilities, strict=True)
        ]
