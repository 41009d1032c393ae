"""A text classifier with the interface of scikit-learn: for its pipelines, cross-validation and grid search."""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from headway.api.model import Model
from headway.api.settings import Settings, Start
from headway.api.train import train as train_recipe
from headway.config.errors import Problem
from headway.data.examples import as_text
from headway.data.memory import item

SECTIONS = ("data", "model", "train")  # parameters that are dicts of settings
LEFT_BEHIND = ("tensorboard", "data-*.parquet", "lock")  # files of a run that a pickled classifier does not need


class TextClassifier(ClassifierMixin, BaseEstimator):
    """Trains a recipe of the task classify: ``fit(texts, labels)``, then ``predict(texts)``.

    The parameters are those of ``headway.train``; ``model`` and ``train`` are dicts of settings, and so is ``data``
    (``{"max_length": 100}``); a grid search may vary single ones, ``train__learning_rate``. Without ``out`` the run is
    kept in a temporary folder as long as the classifier lives.

    >>> from headway.sklearn import TextClassifier
    >>> texts = [f"a {word} film {number}" for number in range(30) for word in ("good", "bad")]
    >>> classifier = TextClassifier(model={"layers": 0}, train={"steps": 50}).fit(texts, [1, 0] * 30)
    >>> classifier.predict(["a good film", "a bad film"])
    array([1, 0])
    """

    def __init__(
        self,
        recipe: str | Path = "classify",
        *,
        data: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None,
        start: Start | None = None,
        settings: Settings = (),
        random_state: int | np.random.RandomState | None = None,
        out: str | Path | None = None,
        progress: bool | None = False,
    ):
        self.recipe, self.data, self.model, self.train, self.start = recipe, data, model, train, start
        self.settings, self.random_state, self.out, self.progress = settings, random_state, out, progress

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """With ``deep``, single settings too: ``train__learning_rate``."""
        parameters: dict[str, Any] = super().get_params(deep=False)
        for section in SECTIONS if deep else ():
            parameters |= {f"{section}__{key}": value for key, value in (parameters[section] or {}).items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        single = {key: value for key, value in parameters.items() if key.partition("__")[0] in SECTIONS and "__" in key}
        super().set_params(**{key: value for key, value in parameters.items() if key not in single})
        for key, value in single.items():
            section, _, name = key.partition("__")
            setattr(self, section, {**(getattr(self, section) or {}), name: value})
        return self

    def fit(self, X: Iterable[str], y: Iterable[Any]) -> Self:  # noqa: N803 (scikit-learn's names)
        labels = column_of(y, "y")
        missing = next((row for row, label in enumerate(labels) if label is None), None)
        if missing is not None:
            raise Problem(f"y has no label in row {missing} (None or NaN): pass a label for each text")
        if not isinstance(self.data, Mapping | NoneType):
            raise Problem(f"data={self.data!r:.80} is not a dict of settings: pass the texts and labels to fit")
        data: dict[str, Any] = {**(self.data or {}), "train": (texts_of(X), labels)}
        seed = {} if self.random_state is None else {"seed": seed_of(self.random_state)}
        self.classes_ = np.unique(np.asarray(labels))
        self.model_ = train_recipe(
            self.recipe,
            data=data,
            model=self.model,
            train={**(self.train or {}), **seed},
            start=self.start,
            settings=self.settings,
            out=self.out or self.own_folder(),
            progress=self.progress,
        )
        return self

    def own_folder(self) -> Path:
        """A temporary folder for a run, removed with this classifier."""
        folder = tempfile.mkdtemp(prefix="headway-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / "run"

    def predict_proba(self, X: Iterable[str]) -> np.ndarray:  # noqa: N803
        """(N, classes): the probability of each class, in the order of ``classes_``."""
        check_is_fitted(self)
        names = [as_text(label) for label in self.model_.labels]
        order = [names.index(as_text(item(label))) for label in self.classes_]
        return self.model_.probabilities(texts_of(X))[:, order]

    def predict(self, X: Iterable[str]) -> np.ndarray:  # noqa: N803
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __getstate__(self) -> dict[str, Any]:
        """A fitted classifier takes the files of its run along."""
        state = dict(super().__getstate__())
        if "model_" in state:
            folder = state.pop("model_").run.folder
            ignored = {path for pattern in LEFT_BEHIND for path in folder.glob(pattern)}
            files = [path for path in folder.rglob("*") if path.is_file() and not {path, *path.parents} & ignored]
            state["files_"] = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("files_", None)
        super().__setstate__(state)
        if files is not None:
            folder = self.own_folder()
            for name, content in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self.model_ = Model(folder)


def seed_of(random_state: int | np.random.RandomState) -> int:
    """A generator gives another seed each time, as in scikit-learn."""
    return random_state.randint(2**31) if isinstance(random_state, np.random.RandomState) else random_state


def texts_of(X: Any) -> list[str]:  # noqa: N803
    """A list of texts, or a single column of them."""
    if isinstance(X, str):
        raise Problem("X is a text: pass a list of texts")
    return column_of(X, "X")


def column_of(values: Any, name: str) -> list[Any]:
    """The values of a list, an array, a series, or a table of a single column."""
    if not isinstance(values, Iterable) or issparse(values):
        shown = " ".join(repr(values).split())
        raise Problem(f"{name} is {shown:.80}: pass a list of {'texts' if name == 'X' else 'labels'}")
    if getattr(values, "ndim", 1) == 2:
        values = np.asarray(values, dtype=object)
        if values.shape[1] != 1:
            raise Problem(f"{name} has {values.shape[1]} columns: pass a single one")
        values = values[:, 0]
    return [item(value) for value in values]
