"""A task: its data, its model, its loss and its metrics, and what a trained model answers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.data.examples import Reading, plain_texts
from headway.data.files import Progress, silent
from headway.data.sets import Data
from headway.generation.generator import Generator
from headway.generation.prompts import Shot, prompt
from headway.objectives.tally import Tally

D = TypeVar("D", bound=Data, covariant=True)


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
class Answer:
    text: str
    label: str | None  # None: there was nothing to say something of
    probability: float | None
    probabilities: dict[str, float]  # of every label


class Task(ABC):
    """Some tasks have to look at their data before their model can be made: ``prepare`` does, and what it found is
    kept with a run, so that ``restore`` gives it back without the data. Until then the sizes are what they may be at
    most, so that a recipe can be checked without its data."""

    settings: ClassVar[type]  # the dataclass of the recipe's [data] section
    metric_names: ClassVar[tuple[str, ...]]  # the names of its metrics; the last is the one to judge by
    test_only_metrics: ClassVar[tuple[str, ...]] = ()  # those that take writing, and are not measured before
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # what may stand after its own keys that name a part
    trains_itself: ClassVar[bool] = False  # whether it learns by an engine of its own, in place of an optimizer
    example: str  # something to try a trained model on,
    asked_with: ClassVar[str] = "predict"  # and the verb to do so with

    def __init__(self, recipe: Recipe):
        self.recipe = recipe

    @property
    def is_causal(self) -> bool:
        """Whether no token of its model's body sees a later one."""
        return self.recipe.model.causal

    def next_words(self, folder: Path) -> tuple[object, ...]:
        """What to do with a run of it: the verb, and what stands behind it."""
        return self.asked_with, folder, self.example

    @classmethod
    def validation_metrics(cls) -> list[str]:
        """The metrics that every evaluation has; the last is the one to judge by as long as training goes on."""
        return [score for score in cls.metric_names if score not in cls.test_only_metrics]

    @staticmethod
    def deciding(data: Any) -> dict[str, Any]:
        """Of the settings of the data, those that decide which they are, not how they are read."""
        return vars(data)

    def look(self) -> None:  # noqa: B027 (most tasks have nothing to do)
        """Refuse files that are not there, or have not the columns that are asked for."""

    def prepare(self, progress: Progress = silent) -> None:  # noqa: B027
        """Look at the data."""

    def save(self, folder: Path) -> None:  # noqa: B027
        """Keep what was found."""

    def restore(self, folder: Path) -> None:  # noqa: B027
        """Take over what was found when the run began."""

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Splits[Any]: ...

    @abstractmethod
    def data_in(self, path: Path, progress: Progress = silent) -> Mapping[str, Data]:
        """Other data, to measure on."""

    def texts_in(self, path: Path) -> Iterator[str]:
        """The texts of a file that a model can be asked about."""
        return plain_texts(path, Reading())

    @abstractmethod
    def model(self) -> nn.Module: ...

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Tally: ...

    @abstractmethod
    def metrics(self, model: nn.Module, batch: Any) -> dict[str, Tally]: ...

    def generation_metrics(self, model: nn.Module, data: Any) -> dict[str, float]:
        """Scores of what it writes by itself, where that takes longer than to look at each step; of test sets only."""
        return {}

    def answer(self, model: nn.Module, texts: Sequence[str]) -> list[Answer]:
        raise Problem(
            f"a run of {self.recipe.task} does not label texts, it writes them: headway {self.asked_with} RUN TEXT"
        )

    def generator(self, model: nn.Module) -> Generator:
        """A model that writes texts."""
        raise Problem(f"a run of {self.recipe.task} does not write texts, it labels them: headway predict RUN TEXT")

    def prompts(self, count: int) -> list[str]:
        """Beginnings of texts, to try a model on that writes."""
        raise Problem(f"a run of {self.recipe.task} does not write texts")

    answer_pattern: ClassVar[str] = r"-?\d+(?:\.\d+)?"  # how an answer is found in what a model wrote

    def question(self, question: str, shots: Sequence[Shot] = (), think: bool = False) -> str:
        """The prompt that asks a model that writes."""
        return prompt(question, shots, think)

    def conclude(self, model: nn.Module, splits: Splits[Any], folder: Path) -> None:  # noqa: B027
        """What is found out once a run is done, and kept with it."""

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        """What follows from the means of the metrics, and is easier to read."""
        return {}

    def begin(self, model: nn.Module) -> None:  # noqa: B027
        """Know the model that is about to be trained, with its first weights."""

    def alarms(self, history: Sequence[Mapping[str, float]]) -> list[str]:
        """What is wrong, from what was measured on the validation data, evaluation after evaluation."""
        return []

    def state_dict(self, model: nn.Module) -> dict[str, Tensor]:
        """What the next step goes on from, beside the weights; it travels in the checkpoints."""
        return {}

    def load_state_dict(self, model: nn.Module, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Take over what was carried when a checkpoint was written."""

    floor: float = 0.0  # the least that its loss can be

    @property
    @abstractmethod
    def chance(self) -> float:
        """The loss of a model that knows nothing."""
