"""Training: a recipe, with data and settings from Python, becomes a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.api.model import Model
from headway.api.progress import reporter
from headway.api.run import Run
from headway.api.settings import Metrics, RewardFunction, Settings, Source, Start, clear_messages, overrides_of
from headway.config.arguments import checked
from headway.config.errors import Problem
from headway.interop.from_transformers import import_model
from headway.recipes import task as task_of
from headway.runs import pipeline
from headway.runs.fit import Fit
from headway.runs.pipeline import Reporter
from headway.tasks.abilities import Pretrains, can

Data = Source | tuple[str | Path, ...] | Mapping[str, Any] | None
HeldOut = Source | tuple[str | Path, ...] | float | None
Section = Mapping[str, Any] | None


@checked
def train(
    recipe: str | Path,
    *,
    data: Data = None,
    validation: HeldOut = None,
    test: HeldOut = None,
    model: Section = None,
    train: Section = None,
    start: Start | None = None,
    reward: Start | RewardFunction | None = None,
    metrics: Metrics | None = None,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Model:
    """Train a recipe, and return the trained model; its run is a folder in ``runs``, or ``out``.

    Args:
        recipe: The name of a built-in recipe (see ``list_recipes``) or the path of a TOML file.
        data: What to learn from: a path (or a tuple of paths); or from memory a tuple of lists such as ``(texts,
            labels)`` or ``(sources, targets)``, a list of texts or of dicts, a dict of columns, a data frame, an Arrow
            table, a ``datasets.Dataset``, any iterable of dicts. Or a dict of data settings, with the data as "train".
        validation: A share of the data to hold out, or data of their own.
        test: The same for the final evaluation.
        model: Settings of the model, such as ``{"layers": 2, "norm": "rezero"}``. A class or a function can be a part.
        train: Settings of the training, such as ``{"epochs": 3, "learning_rate": 1e-3}``.
        start: A run or a model to start from.
        reward: For PPO: a function of prompts and answers, a reward model, or the name of a rule.
        metrics: Additional metrics: names (f1, mcc, balanced_accuracy), or functions of the true and the predicted
            labels (or of the references and the translations), by name.
        settings: Any other setting: ``{"data.max_length": 200}`` or ``["data.max_length=200"]``.
        out: The folder of the run; default: runs/RECIPE-1, runs/RECIPE-2, ...
        progress: Whether to show progress; None: in a terminal and in a notebook.

    Raises:
        Problem: Something about the data or the settings is wrong; the message says what to do.
        Interrupted: Ctrl-C stopped the training. The run was saved: ``headway.Run(folder).resume()`` continues.

    >>> texts, labels = ["a good film", "a bad film"] * 30, ["positive", "negative"] * 30
    >>> texts = [f"{text} {number}" for number, text in enumerate(texts)]
    >>> classifier = hw.train("classify", data=(texts, labels), model={"layers": 0}, train={"steps": 50})
    >>> classifier.predict("a good film").label
    'positive'
    """
    given = (data, validation, test, model, train, start, reward, metrics, settings)
    shown = reporter(progress)
    with clear_messages():
        fit = pipeline.train(recipe, overrides_of(recipe, *given), folders(out), shown)
    return Model(Run.of(fit.run))


@checked
def fit(
    recipe: str | Path,
    *,
    data: Data = None,
    validation: HeldOut = None,
    test: HeldOut = None,
    model: Section = None,
    train: Section = None,
    start: Start | None = None,
    reward: Start | RewardFunction | None = None,
    metrics: Metrics | None = None,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Fit:
    """The same as ``train``, but the loop is yours: iterate over the steps. ``load(fit.run)`` is the trained model.

    >>> fit = hw.fit("parity", model={"width": 8}, train={"steps": 3}, settings=["data.examples=100", "data.tests=20"])
    >>> [step.number for step in fit]
    [1, 2, 3]
    >>> fit.run.is_done
    True
    """
    given = (data, validation, test, model, train, start, reward, metrics, settings)
    with clear_messages():
        return pipeline.prepare(recipe, overrides_of(recipe, *given), folders(out), reporter(progress))


def folders(out: str | Path | None) -> pipeline.RunFolders:
    return pipeline.RunFolders(None if out is None else Path(out))


@checked
def pretrain(
    recipe: str | Path = "pretrain",
    *,
    data: Data = None,
    model: Section = None,
    train: Section = None,
    start: Start | None = None,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Model:
    """Pre-train on texts without labels; ``train("classify", start=model, ...)`` then starts from the result.

    >>> reviews = [f"the {thing} was good ." for thing in ("plot", "music", "cast", "story")] * 10
    >>> texts = {"train": reviews, "validation": 0.3, "vocab_size": 300}
    >>> start = hw.pretrain(data=texts, model={"layers": 1, "width": 16, "heads": 2}, train={"steps": 2})
    >>> start.run.recipe.task
    'pretrain'
    """
    overrides = overrides_of(recipe, data, model=model, train=train, start=start, settings=settings)
    with clear_messages():
        task = task_of(recipe, overrides)
        if not can(task, Pretrains):
            raise Problem(f"{recipe} is a recipe of {task.recipe.task}, not of pretrain: train it instead")
        return Model(Run.of(pipeline.train(recipe, overrides, folders(out), reporter(progress)).run))


@checked
def from_transformers(
    source: str | Path, *, out: str | Path | None = None, progress: bool | Reporter | None = None
) -> Model:
    """Import a model of the transformers library as a run: GPT-2, BERT, RoBERTa, Llama, Marian or T5, from a folder or
    by its name on the hub. Its outputs are compared with the original's, and differences are refused;
    ``model.run.about["imported"]`` has the largest one.

    >>> _ = letters.export("gpt2", to="transformers")
    >>> hw.from_transformers("gpt2", out="imported").abilities[:3]
    ['embed', 'attention', 'generate']
    """
    with reporter(progress).reading() as show:
        return Model(Run.of(import_model(str(source), None if out is None else Path(out), show).run))
