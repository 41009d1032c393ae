"""A trained model in memory: ``headway.load("runs/parity-1").predict("0110")``."""

import html
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from torch import nn

from headway.api.batch import Batching
from headway.api.generation import Generating
from headway.api.inspection import Inspecting
from headway.api.progress import reporter
from headway.api.run import Evaluations, Run
from headway.api.settings import Settings, Source, Trust, clear_messages, source_of, texts_of
from headway.api.vectors import WordVectors
from headway.config import imports
from headway.config.arguments import at_least, checked, checked_methods, items
from headway.config.errors import Problem
from headway.data import memory
from headway.interop import Exported, export
from headway.metrics.table import Listing, Metrics
from headway.models.fast_decoder import FORMS, with_matrices
from headway.runs.pipeline import Reporter
from headway.runs.run import size_of
from headway.tasks import abilities
from headway.tasks.abilities import Predicts, can, need
from headway.tasks.directions import slow_metrics
from headway.tasks.multilingual import HasLanguages
from headway.tasks.tagging.predictions import Tagging, Tags
from headway.tasks.task import Evaluation, Prediction
from headway.text.tokenizer import Tokenizer
from headway.training.fabric import pick_device


class Candidate(NamedTuple):
    """A token that may stand in the place of a mask."""

    token: str
    probability: float


@checked_methods
class Model(Generating, Batching, Inspecting):
    """A trained model, as ``train`` and ``load`` return it. What it can do depends on its task: see ``abilities``.

    >>> parity
    <Model ...runs/parity-1: parity, 938 parameters>
    >>> parity.abilities
    ['predict', 'probabilities', 'explain', 'embed', 'attention']
    """

    def __init__(self, run: Run | str | Path, *, device: str = "auto"):
        self.run = Run.of(run)
        self.network: nn.Module = self.run.network
        if device != "auto":
            self.network = self.network.to(pick_device(device))

    def __repr__(self) -> str:
        return f"<Model {self.run.folder}: {self.run.recipe.task}, {self.parameters:,} parameters>"

    def _repr_html_(self) -> str:
        title = f"<p>{html.escape(repr(self))}</p>"
        return title + (self.metrics._repr_html_() if self.run.is_done else "")

    @property
    def parameters(self) -> int:
        """The number of parameters, without those of a policy's frozen reference."""
        return size_of(self.network)

    @property
    def metrics(self) -> Metrics:
        """The metrics on the test sets when training ended: ``metrics["test"]["accuracy"]``."""
        if not self.run.is_done:
            raise Problem(f"{self.run.folder} has no results, because it was not trained to its end here: evaluate it")
        return Metrics(self.run.results["test"])

    @property
    def abilities(self) -> list[str]:
        """The methods that work for this model's task."""
        return self.run.abilities

    @property
    def labels(self) -> list[str | int]:
        """The labels of a classifier, in the order of ``probabilities``, integers if they were integers in Python; or
        the tags of a tagger."""
        return self.predictor.own_labels

    @property
    def predictor(self) -> Predicts | Tags:
        """The task, if it labels texts or their words."""
        tags = can(self.run.task, Tags)
        return need(self.run.task, Tags) if tags else need(self.run.task, Predicts)

    @property
    def tokenizer(self) -> Tokenizer:
        """What turns texts into tokens; ``tokenizer.core`` is a tokenizer of the tokenizers library."""
        return need(self.run.task, abilities.Tokenizes).tokenizer_of("encoder.embedding")

    @property
    def example(self) -> str:
        """A text to try the model on."""
        return self.run.task.example

    # --- labels and vectors

    @overload
    def predict(  # type: ignore[overload-overlap]  # a text is an iterable of texts
        self, texts: str, *, batch_size: int = ..., settings: Settings = ...
    ) -> Prediction: ...

    @overload
    def predict(
        self, texts: Path | Iterable[str], *, batch_size: int = ..., settings: Settings = ...
    ) -> Listing[Prediction]: ...

    def predict(
        self, texts: str | Path | Iterable[str], *, batch_size: int = 1024, settings: Settings = ()
    ) -> Prediction | Listing[Prediction]:
        """The label of a text, with its probability; or of each of several texts. A ``Path`` is a file of texts. A
        tagger's prediction is a ``Tagging``: its ``words`` have the labels, and its ``spans`` are what they mark.

        >>> parity.predict("0110").label in ("even", "odd")
        True
        >>> [prediction.text for prediction in parity.predict(["0110", "0111"])]
        ['0110', '0111']
        """
        if isinstance(texts, str):
            return self.predictor.predict(self.network, [texts])[0]
        if isinstance(texts, Path):
            return Listing(self.predict_iter(texts, batch_size=batch_size, settings=settings))
        at_least(1, batch_size=batch_size)
        task, listed = self.predictor, list(texts)
        with self.reading(settings):
            chunks = (listed[first : first + batch_size] for first in range(0, len(listed), batch_size))
            return Listing(prediction for chunk in chunks for prediction in task.predict(self.network, chunk))

    def predict_iter(
        self, texts: Path | Iterable[str], *, batch_size: int = 1024, settings: Settings = ()
    ) -> Iterator[Prediction]:
        """The same for texts that do not fit into memory: predictions as they are made. An empty text has no label.

        >>> next(parity.predict_iter(iter(["0110", "0111"]))).text
        '0110'
        """
        at_least(1, batch_size=batch_size)
        task = self.predictor
        empty = Tagging if can(self.run.task, Tags) else Prediction
        with self.reading(settings):
            stream = self.run.task.texts_in(texts) if isinstance(texts, Path) else checked_texts(texts)
            while chunk := list(islice(stream, batch_size)):
                written = [text for text in chunk if text.strip()]
                predictions = iter(task.predict(self.network, written) if written else ())
                yield from (next(predictions) if text.strip() else empty(text, None, None, {}) for text in chunk)

    def probabilities(self, texts: str | Iterable[str], *, batch_size: int = 1024) -> np.ndarray:
        """The probability of each label, in the order of ``labels``: (labels,) for a text, (N, labels) for several.

        >>> parity.probabilities(["0110", "0111"]).shape
        (2, 2)
        """
        if isinstance(texts, str):
            return np.array([self.predict(texts).probabilities[label] for label in self.labels])
        rows = [list(each.probabilities.values()) for each in self.predict(texts, batch_size=batch_size)]
        return np.array(rows).reshape(-1, len(self.labels))

    def embed(self, texts: str | Iterable[str]) -> np.ndarray:
        """A vector for a text (D,), or for each of several (N, D): what the head of a classifier reads, or the mean of
        the last hidden states of a language model, a translator's encoder or a pre-trained model.

        >>> parity.embed(["0110", "0111"]).shape
        (2, 8)
        """
        task = need(self.run.task, abilities.Embeds)
        if isinstance(texts, str):
            return task.embed(self.network, [texts])[0]
        listed = list(texts)
        return task.embed(self.network, listed) if listed else np.empty((0, self.run.recipe.model.width), np.float32)

    def fill(self, text: str, *, top: int = 5) -> list[Listing[Candidate]]:
        """The likeliest tokens for each ``[MASK]`` of a text.

        >>> len(masked.fill("the plot was [MASK] .", top=3)[0])
        3
        """
        at_least(1, top=top)
        masks = need(self.run.task, abilities.Fills).fill(self.network, text, top)
        return [Listing(Candidate(*each) for each in mask) for mask in masks]

    def rate(self, prompts: str | Sequence[str], answers: Sequence[str]) -> list[float]:
        """The reward of each answer, by a reward model. A single prompt is that of all answers.

        >>> len(critic.rate("a", ["ab", "ba"]))
        2
        """
        prompts = [prompts] * len(answers) if isinstance(prompts, str) else prompts
        if len(prompts) != len(answers):
            raise Problem(f"{len(prompts)} prompts and {len(answers)} answers: pass one prompt for each answer")
        return need(self.run.task, abilities.RanksAnswers).rate(self.network, prompts, answers)

    @property
    def vectors(self) -> WordVectors:
        """The word vectors that a run of the task ``vectors`` has learned."""
        return WordVectors.of(need(self.run.task, abilities.HasWordVectors).word_vectors(self.network))

    # --- measuring and taking away

    def evaluate(
        self,
        data: Source | None = None,
        *,
        settings: Settings = (),
        int8: bool = False,
        trust: Trust = (),
        progress: bool | Reporter | None = None,
    ) -> Evaluations:
        """The metrics on each test set; or on other data, from a file or from memory. ``settings`` change how a file is
        read, such as ``{"data.text": "review"}``; ``int8`` evaluates with int8 weights; ``trust`` names the Python
        functions that may run for it, such as the reward of a policy, "my_module:my_function".

        >>> parity.evaluate()["uniform"]["examples"]
        40
        """
        imports.trust(trust)
        if can(self.run.task, abilities.UsesRuns):
            need(self.run.task, abilities.UsesRuns).connect(Run)
        network = self.quantized() if int8 else self.network
        with clear_messages(), self.reading(settings), reporter(progress).reading() as show:
            if data is None:
                sets = self.run.task.splits(show).test
            else:
                path = Path(source_of(self.run.task.columns, "test", data, {}))
                own = self.run.task.data_in(path, show)
                sets = {memory.NAME.sub("data", name): each for name, each in own.items()}
            return Evaluations({name: self.evaluate_set(network, each) for name, each in sets.items()})

    def evaluate_set(self, network: nn.Module, data: Any) -> Evaluation:
        """Includes the metrics that are only measured on test sets."""
        network.eval()
        task = self.run.task
        measured = task.evaluate(network, data)
        slow, of_directions = slow_metrics(task, network, data)
        details = measured.details | of_directions
        if can(task, HasLanguages):
            languages = need(task, HasLanguages)
            rows = languages.measure_languages(network, data)
            details = details | {"languages": rows, "language_means": languages.language_means(rows)}
        return Evaluation(measured.metrics | slow, measured.predictions, details)

    def quantized(self) -> nn.Module:
        if not can(self.run.task, abilities.Generates) or next(self.network.parameters()).is_cuda:
            raise Problem("int8 only works for models that generate text, on a CPU")
        return with_matrices(self.network, FORMS["int8"])

    @contextmanager
    def reading(self, settings: Settings) -> Iterator[None]:
        """Read files with other settings for a while."""
        overrides, before = texts_of(settings), self.run.task.recipe
        if overrides:
            self.run.read_as(overrides)
        try:
            yield
        finally:
            self.run.task.recipe = before

    def export(
        self, folder: str | Path, *, to: str = "transformers", int8: bool = False, license: str = "unknown"
    ) -> Exported:
        """Write the model to a new folder that works without headway: ``transformers``, ``torch`` (a torch.export
        program), ``onnx``, ``ctranslate2`` or ``gguf``, with its tokenizer and a model card. It is compared with this
        model, on random inputs and from text to text, and differences are refused; ``int8`` matrices are smaller, and
        what they cost is told. ``license`` is a field of the card.

        >>> parity.export("exported", to="torch").kind
        'program for torch'
        """
        return export(self.run, Path(folder), to, int8, license)


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(items(texts, "the texts", "texts"), start=1):
        if not isinstance(text, str):
            raise Problem(f"text {number} is {text!r:.60}: pass a string")
        yield text


@checked
def load(run: Run | str | Path, *, device: str = "auto") -> Model:
    """The trained model of a run, on a GPU if there is one, unless the device is "cpu", "cuda" or "mps".

    >>> hw.load(parity.run.folder).predict("0110").label in ("even", "odd")
    True
    """
    return Model(run, device=device)
