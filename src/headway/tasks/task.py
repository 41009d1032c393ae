"""A task: its data, its model, its loss and its metrics, and what a trained model answers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from headway.data.batch import Batch
from headway.data.sequences import Sequences
from headway.objectives.tally import Tally
from headway.recipe import Recipe


@dataclass(frozen=True)
class Splits:
    """Encoded data. There may be several sets to validate and to test on, each with a name."""

    train: Sequences
    validation: dict[str, Sequences]
    test: dict[str, Sequences]
    notes: tuple[str, ...] = ()  # what a user should know about them

    @property
    def sets(self) -> dict[str, Sequences]:
        """All of them, each with its full name."""
        held_out = {"validation": self.validation, "test": self.test}
        return {"train": self.train} | {
            f"{use} {name}": data for use, sets in held_out.items() for name, data in sets.items()
        }


@dataclass(frozen=True)
class Answer:
    text: str
    label: str
    probability: float


class Task(ABC):
    settings: ClassVar[type]  # the dataclass of the recipe's [data] section
    scores: ClassVar[tuple[str, ...]]  # the names of its metrics; the last is the one to judge by
    example: str  # something to try a trained model on

    def __init__(self, recipe: Recipe):
        self.recipe = recipe

    @abstractmethod
    def splits(self) -> Splits: ...

    @abstractmethod
    def model(self) -> nn.Module: ...

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tally: ...

    @abstractmethod
    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tally]: ...

    @abstractmethod
    def answer(self, model: nn.Module, texts: list[str]) -> list[Answer]: ...

    @property
    @abstractmethod
    def chance(self) -> float:
        """The loss of a model that knows nothing."""
