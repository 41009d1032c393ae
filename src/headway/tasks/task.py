"""A task: its data, its model, its loss and its metrics. What only some tasks can do is in tasks/abilities."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn

from headway.config.recipe import Recipe
from headway.data.dataset import Dataset
from headway.data.examples import Reading, plain_texts
from headway.data.files import Progress, Relay, silent
from headway.metrics.classification import Predictions
from headway.objectives.tally import Tally
from headway.tasks.abilities import Ability

D = TypeVar("D", bound=Dataset, covariant=True)


@dataclass(frozen=True)
class Splits(Generic[D]):
    """Encoded data. There may be several sets to validate and to test on, each with a name."""

    train: D
    validation: dict[str, D]
    test: dict[str, D]
    notes: tuple[str, ...] = ()  # what a user should know about them

    @property
    def sets(self) -> dict[str, D]:
        """All of them, each with its full name."""
        held_out = {"validation": self.validation, "test": self.test}
        return {"train": self.train} | {
            f"{use} {name}": data for use, sets in held_out.items() for name, data in sets.items()
        }


@dataclass(frozen=True)
class Prediction:
    text: str
    label: str | None  # None: the text is empty
    probability: float | None
    probabilities: dict[str, float]  # of every label


@dataclass(frozen=True)
class Evaluation:
    """What a test set comes to."""

    metrics: dict[str, float]
    predictions: Predictions | None = None  # of each example, if these are classes
    details: dict[str, Any] = field(default_factory=dict)  # what single numbers hide


class Task(ABC):
    """Some tasks have to look at their data before their model can be made: ``prepare`` does, and what it learned is
    kept with a run, so that ``restore`` gives it back without the data. Until then sizes are upper bounds, so that a
    recipe can be checked without its data."""

    settings: ClassVar[type]  # the dataclass of the recipe's [data] section
    metric_names: ClassVar[tuple[str, ...]]  # the last is the one to judge by
    test_only_metrics: ClassVar[tuple[str, ...]] = ()  # those that take generating, and are measured once at the end
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # its own settings that name a part, and their choices
    inherited: ClassVar[tuple[str, ...]] = ()  # data settings that are taken over from the run that it starts from
    stages: ClassVar[Mapping[str, str]] = {}  # settings that may name a recipe to be trained first, by a name for it
    example: str  # an input to try a trained model on
    floor: float = 0.0  # the lowest possible loss

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self.progress = Relay()
        self.made_splits: Splits[Any] | None = None

    @property
    def is_causal(self) -> bool:
        """Whether no token of its model's body sees a later one."""
        return self.recipe.model.causal

    @classmethod
    def validation_metrics(cls) -> list[str]:
        """Those that every evaluation has; the last is the one to judge by while training continues."""
        return [name for name in cls.metric_names if name not in cls.test_only_metrics]

    def abilities(self) -> list[type[Ability]]:
        """The most particular first."""
        return [each for each in type(self).__mro__ if Ability in each.__bases__]

    # --- data

    @staticmethod
    def identity(data: Any) -> dict[str, Any]:
        """Of the data settings, those that decide which examples there are, not how they are read."""
        return vars(data)

    def check_files(self) -> None:  # noqa: B027 (most tasks have none)
        """Refuse files that do not exist or lack the columns that are asked for."""

    def prepare(self, progress: Progress = silent) -> None:
        """Learn from the data what the model depends on, and find out what is wrong with any of them."""
        self.splits(progress)

    def save(self, folder: Path) -> None:  # noqa: B027
        """Keep what was learned from the data."""

    def restore(self, folder: Path) -> None:  # noqa: B027
        """Take over what was learned when the run began."""

    def splits(self, progress: Progress = silent) -> Splits[Any]:
        """They are made once."""
        self.progress.to = progress
        if self.made_splits is None:
            self.made_splits = self.make_splits()
        return self.made_splits

    @abstractmethod
    def make_splits(self) -> Splits[Any]: ...

    @abstractmethod
    def data_in(self, path: Path, progress: Progress = silent) -> Mapping[str, Dataset]:
        """Other data to measure on."""

    def texts_in(self, path: Path) -> Iterator[str]:
        """The texts of a file, to be predicted."""
        return plain_texts(path, Reading())

    @abstractmethod
    def export_tokens(self, folder: Path) -> dict[str, Any]:
        """Write what turns texts into tokens; gives what one has to know beside it."""

    # --- model

    @property
    @abstractmethod
    def context_length(self) -> int:
        """Tokens of a sequence at most."""

    @abstractmethod
    def model(self) -> nn.Module: ...

    def check_model(self, model: nn.Module) -> None:  # noqa: B027
        """Refuse a model that cannot do what the settings ask for; it is on the meta device, and has no numbers."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Tally: ...

    @abstractmethod
    def metrics(self, model: nn.Module, batch: Any) -> dict[str, Tally]: ...

    @property
    @abstractmethod
    def chance(self) -> float:
        """The loss of a model that knows nothing."""

    # --- measuring

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        """What follows from the means of the metrics, and is easier to read."""
        return {}

    @torch.inference_mode()
    def measure(self, model: nn.Module, data: Dataset) -> dict[str, float]:
        """Each metric over a whole set: sums and counts are added, and divided once."""
        device = next(model.parameters()).device
        totals: dict[str, Tally] = {}
        training = model.training
        model.eval()
        for _, batch in data.batches():
            for name, tally in self.metrics(model, batch.to(device)).items():
                totals[name] = totals[name] + tally.detach_cpu() if name in totals else tally.detach_cpu()
        model.train(training)
        means = {name: tally.mean.item() for name, tally in totals.items()}
        return means | self.derived(means) | {"examples": len(data)}

    def evaluate(self, model: nn.Module, data: Any) -> Evaluation:
        return Evaluation(self.measure(model, data))

    def test_metrics(self, model: nn.Module, data: Any) -> dict[str, float]:
        """What takes longer to measure than the rest, and is measured on test sets alone."""
        return {}
