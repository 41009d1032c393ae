"""What only some tasks can do. A task inherits its abilities, and callers ask for the one they need:

    generates = need(run.task, Generates)
    text = generates.generator(model).write(["def "])

Nothing outside tasks/ asks which task it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.recipe import Recipe, TrainSpec
from headway.data.files import Progress
from headway.data.sequences import LabelledSequences
from headway.generation.generator import Generator
from headway.generation.prompts import PromptReader, Shot, prompt
from headway.generation.translator import Translator
from headway.text.framing import Framing
from headway.text.tokenizer import Tokenizer
from headway.training.checkpoint import Checkpoint
from headway.training.loop import Step

if TYPE_CHECKING:
    from headway.tasks.task import Prediction, Splits, Task
    from headway.tasks.word2vec.word_vectors import WordVectors

A = TypeVar("A", bound="Ability")


class Ability(ABC):  # noqa: B024 (what is abstract is in the abilities themselves)
    verb: ClassVar[str] = ""  # the command for it, with its arguments
    does: ClassVar[str] = ""  # "label texts"


def can(task: "Task", ability: type[Ability]) -> bool:
    return ability in task.abilities()


def need(task: "Task", ability: type[A]) -> A:
    """The task, typed as having this ability; a task without it raises an error that says what it can do."""
    if can(task, ability):
        return cast(A, task)
    verbs = [f"headway {each.verb}" for each in task.abilities() if each.verb]
    hint = f"; try {' or '.join(verbs)}" if verbs else ""
    raise Problem(f"a run of {task.recipe.task} does not {ability.does}{hint}")


# --- using a trained model


class Predicts(Ability):
    verb, does = "predict RUN TEXT", "label texts"
    labels: list[str]
    length: int  # maximum tokens per sequence
    has_cls: bool  # whether every sequence starts with [CLS]

    @property
    def own_labels(self) -> list[str | int]:
        """Integers, if the labels were integers in Python."""
        return list(self.labels)

    @abstractmethod
    def predict(self, model: nn.Module, texts: Sequence[str]) -> "list[Prediction]": ...

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """(N, classes) from the model's outputs (N, ...)."""

    @abstractmethod
    def logits_of(self, model: nn.Module, data: LabelledSequences) -> Tensor:
        """Of all sequences, on the CPU."""

    @abstractmethod
    def sequences(self, texts: Sequence[str], labels: Sequence[int] | None = None) -> LabelledSequences: ...

    @abstractmethod
    def spans(self, text: str) -> list[tuple[int, int]]:
        """The characters of each token in the text: start and end."""

    @abstractmethod
    def framing(self) -> Framing:
        """How a text becomes the tokens that the model reads."""


class Embeds(Ability):
    does = "turn texts into vectors"

    @abstractmethod
    def embed(self, model: Any, texts: Sequence[str]) -> np.ndarray:
        """(N, D): a vector for each text."""

    @abstractmethod
    def tokens_in(self, text: str) -> list[str]:
        """The tokens of a text as the model reads them."""


class Generates(Ability):
    verb, does = "generate RUN PROMPT", "generate text"
    answer_pattern: ClassVar[str] = r"-?\d+(?:\.\d+)?"  # finds the answer in generated text

    @abstractmethod
    def generator(self, model: Any) -> Generator: ...

    @abstractmethod
    def prompts(self, count: int) -> list[str]:
        """Openings of held-out texts."""

    def warning(self, text: str) -> str:
        """Why the completion of this prompt may be poor; empty if there is no reason."""
        if text.endswith(" ") and isinstance(self, Tokenizes) and self.tokenizer_of("").has_leading_spaces:
            return "ends with a space, which belongs to the next token: leave it out"
        return ""

    def question(self, question: str, shots: Sequence[Shot] = (), think: bool = False) -> str:
        return prompt(question, shots, think)


class Chats(Ability):
    does = "answer in a conversation"

    @abstractmethod
    def conversation(self, turns: Sequence[tuple[str, str]], question: str) -> str:
        """The prompt for a question after earlier turns, each a question with its answer."""


class Translates(Ability):
    verb, does = "translate RUN TEXT", "translate"

    @property
    def targets(self) -> Sequence[str]:
        """The languages that it translates into, if the wanted one has to be named."""
        return ()

    @abstractmethod
    def generator(self, model: Any) -> Translator: ...

    @abstractmethod
    def warning(self, text: str) -> str:
        """Why the translation of this text may be poor; empty if there is no reason."""


class Fills(Ability):
    verb, does = "fill RUN TEXT", "fill in masked tokens"

    @abstractmethod
    def fill(self, model: Any, text: str, count: int) -> list[list[tuple[str, float]]]:
        """The likeliest tokens for each [MASK] of a text, with their probabilities."""

    @abstractmethod
    def masked_tokens(self, text: str) -> list[int]:
        """The tokens of a text with masks, as the model reads them."""

    @abstractmethod
    def framing(self) -> Framing:
        """How a text becomes the tokens that the model reads."""


class Pretrains(Ability):
    """Its runs are starting points for other tasks."""

    verb, does = "train classify start=RUN data.train=FILE", "pre-train"


class ReadsPrompts(Ability):
    does = "learn from examples in a prompt"

    @abstractmethod
    def prompt_reader(self) -> PromptReader: ...


class RanksAnswers(Ability):
    verb, does = "reward RUN PROMPT ANSWER ANSWER", "rank answers"

    @abstractmethod
    def rate(self, model: Any, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The rewards of the answers."""


class HasWordVectors(Ability):
    verb, does = "vectors nearest RUN WORD", "learn word vectors"

    @abstractmethod
    def word_vectors(self, model: Any) -> "WordVectors": ...


class Tokenizes(Ability):
    does = "read text"

    @abstractmethod
    def tokenizer_of(self, side: str) -> Tokenizer:
        """Of the embedding with this name: a task with two languages may have two."""


class Loops(Protocol):
    """What a run needs of a training loop."""

    def steps(self, done: int = 0, total: Callable[[int], float] | None = None) -> Iterator[Step]: ...

    def checkpoint(self, progress: dict[str, Any]) -> Checkpoint: ...

    def averaged(self) -> AbstractContextManager[None]: ...

    def load(self, saved: Checkpoint, source: Path) -> None: ...


class TrainsItself(Ability):
    """It has its own training engine instead of an optimizer and Fabric."""

    @abstractmethod
    def loop(self, model: Any, data: Any, sampler: Any, spec: TrainSpec, device: torch.device) -> Loops: ...


class HasState(Ability):
    """The next step depends on more than the weights; this state is part of the checkpoints."""

    def begin(self, model: Any) -> None:
        """Called with the model before training."""

    @abstractmethod
    def state_dict(self, model: nn.Module) -> dict[str, Tensor]: ...

    @abstractmethod
    def load_state_dict(self, model: nn.Module, state: dict[str, Tensor]) -> None: ...


class KeepsReference(Ability):
    """Its model has a frozen copy of the weights it starts from."""

    @abstractmethod
    def copy_reference(self, model: Any) -> None: ...


class ReadsTokens(Ability):
    """It is trained on texts without labels, which ``data.max_tokens`` can cut down."""

    does = "learn from texts without labels"

    @abstractmethod
    def tokens_of_step(self) -> int: ...

    @abstractmethod
    def training_tokens(self) -> int:
        """In the texts that it is trained on."""


class TrainedRun(Protocol):
    """What a task may use of another run."""

    folder: Path

    @property
    def recipe(self) -> Recipe: ...

    @property
    def task(self) -> "Task": ...

    @property
    def is_done(self) -> bool: ...

    @property
    def results(self) -> dict[str, Any]: ...

    @property
    def network(self) -> nn.Module: ...


OpenRun = Callable[[str | Path], TrainedRun]


class UsesRuns(Ability):
    @abstractmethod
    def connect(self, open_run: OpenRun) -> None:
        """Resolve the runs and functions that the settings name, or raise what is wrong with them."""


class MakesData(Ability):
    """The run it starts from may generate its training data."""

    @abstractmethod
    def lacks_data(self) -> bool: ...

    @abstractmethod
    def make_data(self, path: Path, open_run: OpenRun, progress: Progress) -> tuple[str, list[str]]:
        """Write the data to a file; return a message about them, and the overrides that use them."""


class Finding(NamedTuple):
    good: bool
    message: str


class Monitored(Ability):
    """Training is fragile: it is checked before the first step and at every evaluation."""

    @abstractmethod
    def preflight(
        self, model: Any, splits: "Splits[Any]", autocast: Callable[[], AbstractContextManager[None]]
    ) -> list[Finding]: ...

    @abstractmethod
    def alarms(self, history: Sequence[Mapping[str, float]]) -> list[str]:
        """Warnings from the validation metrics of all evaluations so far."""


class Concludes(Ability):
    @abstractmethod
    def conclude(self, model: Any, splits: "Splits[Any]", folder: Path) -> None:
        """Compute and store what belongs to a finished run."""
