"""What looks wrong with labelled texts: labels that a simple model confidently disagrees with, held-out texts that are
almost in the training data; and how much of the test data is within reach of that model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from headway.baselines.documents import Documents, Words
from headway.baselines.labels import LabelBaselines, Labelled, folds
from headway.baselines.minhash import near_duplicates
from headway.data.corpus import Corpus
from headway.data.files import Progress
from headway.data.sequences import LabelledSequences
from headway.lab.baselines import baselines_of
from headway.metrics.table import Table
from headway.tasks.classify import Classify

FOLDS, LARGE_FOLDS, LARGE = 5, 3, 10_000  # fewer folds for more rows than that
FEWEST_ROWS, MOST_ROWS = 40, 50_000  # of which labels are checked; of more, some that are drawn at random
MOST_SHOWN = 10
LONGEST_EXCERPT = 70  # characters


@dataclass(frozen=True)
class LabelError:
    """A row whose label is probably wrong."""

    line: int
    label: str
    predicted: str
    probability: float  # of the predicted label, by a model that has not seen the row
    text: str


@dataclass(frozen=True)
class NearDuplicate:
    """A held-out text that is almost in the training data."""

    part: str
    line: int
    train_line: int
    similarity: float
    text: str


@dataclass(frozen=True)
class Reach:
    """How well the best simple model does on the test data."""

    baseline: str
    accuracy: float
    most_frequent: float  # the accuracy of always giving the most frequent label


@dataclass(frozen=True)
class Suspects:
    """All of them, or None if there are too few rows to say."""

    checked_rows: int
    label_errors: list[LabelError] | None
    near_duplicates: list[NearDuplicate]
    reach: Reach

    def error_table(self) -> Table:
        shown = (self.label_errors or [])[:MOST_SHOWN]
        columns = ["line", "label", "looks like", "probability", "text"]
        return Table(columns, [(each.line, each.label, each.predicted, each.probability, each.text) for each in shown])

    def duplicate_table(self) -> Table:
        shown = self.near_duplicates[:MOST_SHOWN]
        rows = [(each.part, each.line, each.train_line, each.similarity, each.text) for each in shown]
        return Table(["part", "line", "line in train", "similarity", "text"], rows)

    def _repr_html_(self) -> str:
        return self.error_table()._repr_html_() + self.duplicate_table()._repr_html_()


def suspects(task: Classify, progress: Progress) -> Suspects:
    """Of a task whose data are read."""
    splits = task.splits(progress)
    sets: dict[str, LabelledSequences] = {"train": splits.train, **splits.validation, **splits.test}
    words = Words()
    documents = {name: task.documents(data, words, is_training=True) for name, data in sets.items()}
    errors, checked = label_errors(task, splits.train, documents["train"], progress)
    duplicates = list(duplicates_of(task, sets, documents, progress))
    *_, best = rows = baselines_of(task, None, progress)
    accuracies = [float(np.mean([own["accuracy"] for own in row.metrics.values()])) for row in rows]
    simple = next(own for row, own in zip(rows, accuracies, strict=True) if row.parameters == 1)
    return Suspects(checked, errors, duplicates, Reach(best.name, accuracies[-1], simple))


def label_errors(
    task: Classify, data: LabelledSequences, documents: Documents, progress: Progress
) -> tuple[list[LabelError] | None, int]:
    """By confident learning (Northcutt et al. 2021, https://doi.org/10.1613/jair.1.12125): a row is suspect if another
    class is more probable than it usually is for that class's own rows. Each is judged by a model that was trained on
    others."""
    rows = np.arange(len(data))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST_ROWS])
    labels = data.labels[rows]
    classes, counts = np.unique(labels, return_counts=True)
    if len(rows) < FEWEST_ROWS or len(classes) < 2 or counts.max() < 2 * FOLDS:
        return None, 0
    chances = held_out_probabilities(documents.take(rows), labels, len(task.labels), progress)
    thresholds = np.ones(len(task.labels))
    thresholds[classes] = [chances[labels == each, each].mean() for each in classes]
    confident = np.where(chances >= thresholds, chances, 0)
    predicted = confident.argmax(axis=1)
    margins = chances[np.arange(len(rows)), predicted] - chances[np.arange(len(rows)), labels]
    wrong = np.flatnonzero((confident.max(axis=1) > 0) & (predicted != labels) & (margins > 0))
    wrong = wrong[np.argsort(-margins[wrong], kind="stable")]
    lines, texts = lines_of(task, data), excerpts(task, data, rows[wrong])
    found = [
        LabelError(
            int(lines[rows[row]]),
            task.labels[labels[row]],
            task.labels[predicted[row]],
            float(chances[row, predicted[row]]),
            texts[int(rows[row])],
        )
        for row in wrong.tolist()
    ]
    return found, len(rows)


def held_out_probabilities(documents: Documents, labels: np.ndarray, classes: int, progress: Progress) -> np.ndarray:
    """(N, classes): of each document, by a model that was trained on the other folds."""
    count = FOLDS if len(labels) <= LARGE else LARGE_FOLDS
    chances = np.zeros((len(labels), classes))
    for number, held_out in enumerate(folds(len(labels), count)):
        progress("looking for wrong labels", number / count)
        train = Labelled(documents.take(np.flatnonzero(~held_out)), labels[~held_out])
        fitted = LabelBaselines(train, train, classes).plain()
        chances[held_out] = fitted.probabilities(documents.take(np.flatnonzero(held_out)))
    progress("looking for wrong labels", 1.0)
    return chances


def duplicates_of(
    task: Classify, sets: dict[str, LabelledSequences], documents: dict[str, Documents], progress: Progress
) -> Iterator[NearDuplicate]:
    train_lines = lines_of(task, sets["train"])
    for number, (part, data) in enumerate(islice(sets.items(), 1, None)):
        progress("looking for near-duplicates", number / len(sets))
        pairs = near_duplicates(documents[part], documents["train"])
        lines, texts = lines_of(task, data), excerpts(task, data, np.array([pair.row for pair in pairs], np.int64))
        for pair in pairs:
            where = int(lines[pair.row]), int(train_lines[pair.other])
            yield NearDuplicate(part, *where, pair.similarity, texts[pair.row])
    progress("looking for near-duplicates", 1.0)


def lines_of(task: Classify, data: LabelledSequences) -> np.ndarray:
    """(N,): where the texts stand in their file."""
    corpus, rows = task.origins[data.key]
    return np.asarray(corpus.index.rows["line"][rows])


def excerpts(task: Classify, data: LabelledSequences, rows: np.ndarray) -> dict[int, str]:
    """The beginnings of these texts, by row."""
    corpus, chosen = task.origins[data.key]
    places = np.flatnonzero(chosen)[np.unique(rows)]
    wanted = np.zeros(len(chosen), bool)
    wanted[places] = True
    return dict(zip(np.unique(rows).tolist(), map(excerpt, texts_in(corpus, wanted)), strict=True))


def texts_in(corpus: Corpus, wanted: np.ndarray) -> Sequence[Any]:
    return list(corpus.texts("reading", wanted)) if wanted.any() else []


def excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_EXCERPT else f"{line[: LONGEST_EXCERPT - 1]}…"
