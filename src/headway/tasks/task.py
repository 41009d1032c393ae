"""A task: data, model, loss and metrics. What only some tasks can do is in tasks/abilities."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn

from headway.config.errors import BadSetting, NoReward, Problem
from headway.config.limits import free_memory, refuse_beyond
from headway.config.parts import choose
from headway.config.recipe import Recipe
from headway.data.dataset import Dataset
from headway.data.examples import Reading, plain_texts
from headway.data.files import Progress, Relay, silent
from headway.metrics.classification import METRICS, LabelMetric, Predictions
from headway.objectives.tally import Tally
from headway.tasks.abilities import Ability
from headway.training.sharing import ALONE, Sharing

EXAMPLE, TOKEN = 80, 9  # bytes in memory: an empty text with its places in lists, a token with its character
D = TypeVar("D", bound=Dataset, covariant=True)


@dataclass(frozen=True)
class Splits(Generic[D]):
    """Encoded data. There may be several named validation and test sets."""

    train: D
    validation: dict[str, D]
    test: dict[str, D]
    notes: tuple[str, ...] = ()  # what the user should know about the data

    @property
    def sets(self) -> dict[str, D]:
        """All sets by full name."""
        held_out = {"validation": self.validation, "test": self.test}
        return {"train": self.train} | {
            f"{use} {name}": data for use, sets in held_out.items() for name, data in sets.items()
        }


@dataclass(frozen=True)
class Prediction:
    text: str
    label: str | int | None  # None: the text is empty
    probability: float | None
    probabilities: dict[str | int, float]  # of every label


@dataclass(frozen=True)
class Evaluation:
    """Results on a test set."""

    metrics: dict[str, float]
    predictions: Predictions | None = field(default=None, repr=False)  # for classifiers: of every example
    details: dict[str, Any] = field(default_factory=dict, repr=False)  # curves and tables behind the metrics

    def __getitem__(self, metric: str) -> float:
        return self.metrics[metric]


class Task(ABC):
    """Some tasks must read their data before they can build a model. ``prepare`` does that, ``save`` stores the result
    in the run and ``restore`` reads it back without the data. Until then sizes are upper bounds, so that a recipe can
    be checked without its data."""

    settings: ClassVar[type]  # the dataclass of the recipe's [data] section
    metric_names: ClassVar[tuple[str, ...]]  # models are selected by the last
    usual_metric: ClassVar[str] = "loss"  # for early stopping, where none is set
    test_only_metrics: ClassVar[tuple[str, ...]] = ()  # they need generated text: measured once, at the end
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # data settings that name a part, with their choices
    inherited: ClassVar[tuple[str, ...]] = ()  # data settings inherited from the run it starts from
    columns: ClassVar[tuple[str, ...]] = ()  # of data from memory, in the order of a tuple
    generates_data: ClassVar[bool] = False  # whether it is trained on data of its own making
    takes_metrics: ClassVar[bool] = False  # whether train.metrics may name additional ones,
    additional_are_test_only: ClassVar[bool] = False  # and whether these need generated text, too
    stages: ClassVar[Mapping[str, str]] = {}  # settings that may name a recipe to train first, by stage name
    shortest: int = 1  # tokens in an example of its own making
    example: str  # an input to try the trained model on
    floor: float = 0.0  # the lowest possible loss

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self.progress = Relay()
        self.made_splits: Splits[Any] | None = None

    @cached_property
    def additional_metrics(self) -> dict[str, LabelMetric]:
        """Those that the recipe names; a run can be used where they are not known, as long as nothing is measured."""
        names = self.recipe.train.metrics.split()
        if names and not self.takes_metrics:
            raise BadSetting("train.metrics", f"{self.recipe.task} neither labels nor translates: leave it out")
        return {name: choose(METRICS, name, "train.metrics") for name in names}

    @property
    def is_causal(self) -> bool:
        """Whether no token attends to later ones."""
        return self.recipe.model.causal

    @classmethod
    def validation_metrics(cls) -> list[str]:
        """Measured at every evaluation; the last selects the best checkpoint."""
        return [name for name in cls.metric_names if name not in cls.test_only_metrics]

    def abilities(self) -> list[type[Ability]]:
        """Most specific first."""
        return [each for each in type(self).__mro__ if Ability in each.__bases__]

    # --- data

    @classmethod
    def identity(cls, data: Any) -> dict[str, Any]:
        """The data settings that decide which examples there are, not how they are encoded."""
        return vars(data)

    def check_files(self) -> None:  # noqa: B027 (most tasks have none)
        """Refuse missing files and missing columns."""

    def prepare(self, progress: Progress = silent) -> None:
        """Read the data: learn what the model depends on, and report what is wrong with them."""
        self.splits(progress)

    def save(self, folder: Path) -> None:  # noqa: B027
        """Store what was learned from the data."""

    def restore(self, folder: Path) -> None:  # noqa: B027
        """Load what ``save`` stored."""

    def splits(self, progress: Progress = silent) -> Splits[Any]:
        """The data sets, made on the first call."""
        self.progress.to = progress
        if self.made_splits is None:
            self.refuse_too_much_data()
            self.made_splits = self.make_splits()
        return self.made_splits

    def refuse_too_much_data(self) -> None:
        """Of its own making: it has to fit into the memory."""
        if self.generates_data:
            data, size = self.recipe.data, self.shortest
            what = f"data.examples={data.examples} and data.tests={data.tests}, of at least {size:,} tokens each,"
            refuse_beyond(free_memory(), (data.examples + data.tests) * (EXAMPLE + TOKEN * size), f"making {what}")

    @abstractmethod
    def make_splits(self) -> Splits[Any]: ...

    @abstractmethod
    def data_in(self, path: Path, progress: Progress = silent) -> Mapping[str, Dataset]:
        """Another file to evaluate on."""

    def texts_in(self, path: Path) -> Iterator[str]:
        """The texts of a file, to predict."""
        return plain_texts(path, Reading())

    # --- model

    @property
    @abstractmethod
    def context_length(self) -> int:
        """Maximum tokens per sequence."""

    @abstractmethod
    def model(self) -> nn.Module: ...

    def check_model(self, model: nn.Module) -> None:  # noqa: B027
        """Refuse a model that does not fit the settings; it is on the meta device, without weights."""

    @torch.inference_mode()
    def refuse_too_long(self, model: nn.Module, sets: Mapping[str, Dataset]) -> None:
        """Run the longest sequence of each dataset through the model before training begins."""
        device = next(model.parameters()).device
        for name, data in sets.items():
            try:
                self.metrics(model, data.longest().to(device))
            except NoReward:
                raise
            except Problem as problem:
                raise Problem(f"the {name!r} data do not fit the model: {problem}") from None

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Tally: ...

    @abstractmethod
    def metrics(self, model: nn.Module, batch: Any) -> dict[str, Tally]: ...

    @property
    @abstractmethod
    def chance(self) -> float:
        """The loss of guessing."""

    # --- measuring

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        """Metrics computed from the means of others, such as perplexity."""
        return {}

    @torch.inference_mode()
    def measure(self, model: nn.Module, data: Dataset, sharing: Sharing = ALONE) -> dict[str, float]:
        """All metrics over a data set: sums and counts are added and divided once. With ``sharing``, all processes
        call this together."""
        device = next(model.parameters()).device
        totals: dict[str, Tally] = {}
        training = model.training
        model.eval()
        batches = (batch for _, batch in data.batches())
        for tallies in sharing.tallies(lambda batch: self.metrics(model, batch.to(device)), batches):
            for name, tally in tallies.items():
                totals[name] = totals[name] + tally if name in totals else tally
        model.train(training)
        means = {name: tally.mean.item() for name, tally in totals.items() if int(tally.count)}  # else of nothing
        return means | self.derived(means) | {"examples": len(data)}

    def evaluate(self, model: nn.Module, data: Any) -> Evaluation:
        return Evaluation(self.measure(model, data))

    def test_metrics(self, model: nn.Module, data: Any) -> dict[str, float]:
        """Slow metrics, measured on test sets only."""
        return {}
