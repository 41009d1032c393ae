"""What only some tasks can do. A task inherits the abilities that it has, and whoever needs one asks for it:

    generates = need(run.task, Generates)
    text = generates.generator(model).write(["def "])

Nothing outside of tasks/ asks which task it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe, TrainSpec
from headway.data.files import Progress
from headway.data.sequences import LabelledSequences
from headway.generation.generator import Generator
from headway.generation.prompts import Shot, prompt
from headway.generation.translator import Translator
from headway.text.tokenizer import Tokenizer
from headway.training.checkpoint import Checkpoint
from headway.training.loop import Step

if TYPE_CHECKING:
    from headway.tasks.task import Prediction, Splits, Task
    from headway.tasks.word2vec.table import Table

A = TypeVar("A", bound="Ability")


class Ability(ABC):  # noqa: B024 (what is abstract is in the abilities themselves)
    verb: ClassVar[str] = ""  # the command for it, and what stands behind it
    does: ClassVar[str] = ""  # "label texts"


def can(task: "Task", ability: type[Ability]) -> bool:
    return ability in task.abilities()


def need(task: "Task", ability: type[A]) -> A:
    """The task as something that has the ability; if it has not, a line says what it can do."""
    if can(task, ability):
        return cast(A, task)
    verbs = [f"headway {each.verb}" for each in task.abilities() if each.verb]
    hint = f"; try {' or '.join(verbs)}" if verbs else ""
    raise Problem(f"a run of {task.recipe.task} does not {ability.does}{hint}")


# --- what a trained model is asked for


class Predicts(Ability):
    verb, does = "predict RUN TEXT", "label texts"
    labels: list[str]
    length: int  # tokens of a sequence at most
    has_cls: bool  # whether a token [CLS] stands in front of every sequence

    @abstractmethod
    def predict(self, model: nn.Module, texts: Sequence[str]) -> "list[Prediction]": ...

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """(N, classes) of the outputs (N, ...) of the model."""

    @abstractmethod
    def logits_of(self, model: nn.Module, data: LabelledSequences) -> Tensor:
        """Of each sequence, on the CPU."""

    @abstractmethod
    def sequences(self, texts: Sequence[str], labels: Sequence[int] | None = None) -> LabelledSequences: ...

    @abstractmethod
    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token stands in the text: its first character, and the one after its last."""


class Generates(Ability):
    verb, does = "generate RUN PROMPT", "generate text"
    answer_pattern: ClassVar[str] = r"-?\d+(?:\.\d+)?"  # how an answer is found in a generated text

    @abstractmethod
    def generator(self, model: Any) -> Generator: ...

    @abstractmethod
    def prompts(self, count: int) -> list[str]:
        """Beginnings of held-out texts."""

    def question(self, question: str, shots: Sequence[Shot] = (), think: bool = False) -> str:
        """The prompt that asks a question."""
        return prompt(question, shots, think)


class Translates(Ability):
    verb, does = "translate RUN TEXT", "translate"

    @abstractmethod
    def generator(self, model: Any) -> Translator: ...

    @abstractmethod
    def warning(self, text: str) -> str:
        """Why a translation of this text may not be worth much; empty: no reason."""


class Fills(Ability):
    verb, does = "fill RUN TEXT", "fill in masked tokens"

    @abstractmethod
    def fill(self, model: Any, text: str, count: int) -> list[list[tuple[str, float]]]:
        """For each [MASK] of a text the likeliest tokens, with their probabilities."""


class Pretrains(Ability):
    """Its runs are for others to start from."""

    verb, does = "train classify start=RUN data.train=FILE", "pre-train"


class PromptReader(NamedTuple):
    """How a model can be asked which of several texts is the likeliest to follow a prompt."""

    tokenizer: Tokenizer
    window: int  # tokens that it reads at once
    mask: int | None = None  # the token that a masked model is to replace; None: it predicts the next token
    sees_prompt: bool = False  # whether the tokens of a prompt see each other


class ReadsPrompts(Ability):
    does = "learn from examples in a prompt"

    @abstractmethod
    def prompt_reader(self) -> PromptReader: ...


class RanksAnswers(Ability):
    verb, does = "reward RUN PROMPT ANSWER ANSWER", "rank answers"

    @abstractmethod
    def rate(self, model: Any, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The reward of each answer."""


class HasWordVectors(Ability):
    verb, does = "vectors nearest RUN WORD", "learn word vectors"

    @abstractmethod
    def table(self, model: Any) -> "Table": ...


class Tokenizes(Ability):
    does = "read text"

    @abstractmethod
    def tokenizer_of(self, side: str) -> Tokenizer:
        """Of the embedding of this name: a task with two languages may have two."""


# --- what a run asks for while it is trained


class Loops(Protocol):
    """What a run asks of a training loop."""

    def steps(self, done: int = 0) -> Iterator[Step]: ...

    def checkpoint(self, progress: dict[str, Any]) -> Checkpoint: ...

    def averaged(self) -> AbstractContextManager[None]: ...

    def load(self, saved: Checkpoint, source: Path) -> None: ...


class TrainsItself(Ability):
    """It learns with an engine of its own, in place of an optimizer and Fabric."""

    @abstractmethod
    def loop(self, model: Any, data: Any, sampler: Any, spec: TrainSpec, device: torch.device) -> Loops: ...


class HasState(Ability):
    """The next step continues from more than the weights; this travels in the checkpoints."""

    def begin(self, model: Any) -> None:
        """Called with the model that is about to be trained."""

    @abstractmethod
    def state_dict(self, model: nn.Module) -> dict[str, Tensor]: ...

    @abstractmethod
    def load_state_dict(self, model: nn.Module, state: dict[str, Tensor]) -> None: ...


class KeepsReference(Ability):
    """Its model has a frozen copy of what it starts from."""

    @abstractmethod
    def copy_reference(self, model: Any) -> None: ...


class TrainedRun(Protocol):
    """What a task may ask of another run."""

    folder: Path

    @property
    def recipe(self) -> Recipe: ...

    @property
    def task(self) -> "Task": ...

    @property
    def is_done(self) -> bool: ...

    @property
    def results(self) -> dict[str, Any]: ...

    def model(self) -> nn.Module: ...


OpenRun = Callable[[str | Path], TrainedRun]


class UsesRuns(Ability):
    @abstractmethod
    def connect(self, open_run: OpenRun) -> None:
        """Find what the settings name: another run, a function. What cannot be found is said here."""


class MakesData(Ability):
    """Its training data may be made by the run that it starts from."""

    @abstractmethod
    def lacks_data(self) -> bool: ...

    @abstractmethod
    def make_data(self, path: Path, open_run: OpenRun, progress: Progress) -> tuple[str, list[str]]:
        """Write the data into a file; gives a line about them, and the settings with which they are used."""


class Finding(NamedTuple):
    good: bool
    message: str


class Monitored(Ability):
    """Much can go wrong while it is trained: it is checked before the first step, and at every evaluation."""

    @abstractmethod
    def preflight(
        self, model: Any, splits: "Splits[Any]", autocast: Callable[[], AbstractContextManager[None]]
    ) -> list[Finding]: ...

    @abstractmethod
    def alarms(self, history: Sequence[Mapping[str, float]]) -> list[str]:
        """What is wrong, from the metrics on the validation data, evaluation after evaluation."""


class Concludes(Ability):
    @abstractmethod
    def conclude(self, model: Any, splits: "Splits[Any]", folder: Path) -> None:
        """Work out what is kept with a run once it is done."""
