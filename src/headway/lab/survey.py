"""Files of texts as headway reads them, before training: by language, and if they have labels, their classes, lengths
and duplicates."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from headway import recipes
from headway.data.corpus import Corpus
from headway.data.examples import has_labels
from headway.data.files import Progress, silent
from headway.data.readers import Format, is_whole
from headway.data.sequences import LabelledSequences
from headway.lab.language_survey import survey_languages
from headway.lab.suspects import suspects
from headway.metrics.table import Table
from headway.tasks import TASKS
from headway.tasks.abilities import Predicts, can, need
from headway.tasks.classify import Classify
from headway.tasks.file_task import HasTexts

LIMITS = (64, 128, 256, 512, 1024)  # lengths for which truncation is reported
MOST_CLASSES = 20  # that are listed
UNLABELLED = "language"  # the recipe for texts without labels


class Survey(dict[str, Any]):
    """What there is in the data: ``recipe``, ``rows`` and ``notes``; ``languages`` if they are told apart or there are
    no labels; with labels ``columns``, ``classes``, ``tokens``, ``histogram``, ``cut_off``, ``duplicates``, ``parts``
    ``unknown`` and, unless it is quick, ``suspects``. A notebook shows it as tables."""

    @property
    def has_labels(self) -> bool:
        return "classes" in self

    def class_table(self) -> Table:
        """The most frequent ones."""
        most = max(self["classes"].values())
        rows = [
            (label, count, f"{count / self['rows']:.1%}", "█" * round(30 * count / most))
            for label, count in self.ranked_classes[:MOST_CLASSES]
        ]
        return Table(["class", "rows", "share", ""], rows)

    @property
    def ranked_classes(self) -> list[tuple[str, int]]:
        return sorted(self["classes"].items(), key=lambda pair: -pair[1])

    def other_classes(self) -> str:
        """Those that are not in the table; empty if there are none."""
        rest = self.ranked_classes[MOST_CLASSES:]
        return f"and {len(rest):,} more, of {rest[-1][1]:,} to {rest[0][1]:,} rows" if rest else ""

    def cut_off_table(self) -> Table:
        rows = [(limit, f"{cut['texts']:.1%}", f"{cut['tokens']:.1%}") for limit, cut in self["cut_off"].items()]
        return Table(["maximum length", "texts truncated", "tokens lost"], rows)

    def part_table(self) -> Table:
        rows = [(name, rows, f"{self['unknown'][name]:.2%}") for name, rows in self["parts"].items()]
        return Table(["part", "rows", "unknown tokens"], rows)

    def parts_in_html(self) -> Iterator[str]:
        if "languages" in self:
            yield self["languages"]._repr_html_()
        if "suspects" in self:
            yield self["suspects"]._repr_html_()
        if self.has_labels:
            yield from (each._repr_html_() for each in (self.class_table(), self.cut_off_table(), self.part_table()))

    def _repr_html_(self) -> str:
        return f"<p>{self['rows']:,} texts</p>{''.join(self.parts_in_html())}"


def survey(
    file: str,
    recipe: str | Path | None = None,
    overrides: Sequence[str] = (),
    progress: Progress = silent,
    quick: bool = False,
) -> Survey:
    """``recipe`` says how the data are read; None: classify if they have labels. ``quick``: only what is counted."""
    name = recipe or usual_recipe(file, overrides)
    chosen = recipes.load(name, [f"data.train={file}", *overrides])
    task = TASKS[chosen.task](chosen)
    texts = need(task, HasTexts)
    about: dict[str, Any] = {"recipe": str(name)}
    if can(task, Predicts):
        about |= survey_classes(cast(Classify, task), progress)
        if not quick:
            about |= {"suspects": suspects(cast(Classify, task), progress)}
        if chosen.data.language is None:
            return Survey(about)
        return Survey(about, languages=survey_languages(texts.passages([], progress), file, progress))
    task.check_files()
    notes: list[str] = []
    languages = survey_languages(texts.passages(notes, progress), file, progress)
    has_columns = os.path.isfile(file) and not is_whole(Path(file), Format(whole=True))
    if recipe is None and has_columns and not languages.is_told_apart:
        notes.append("no column is a label or a language: set data.label or data.language if there is one")
    rows = sum(each.texts for each in languages.languages.values())
    return Survey(about, rows=rows, notes=notes, languages=languages)


def usual_recipe(file: str, overrides: Sequence[str]) -> str:
    if "," in file and not os.path.exists(file):  # for names of any length
        return UNLABELLED
    reading = Classify(recipes.load("classify", [f"data.train={file}", *overrides])).reading
    return "classify" if has_labels(Path(file), reading) else UNLABELLED


def survey_classes(task: Classify, progress: Progress) -> dict[str, Any]:
    task.prepare(progress)
    splits, index = task.splits(progress), task.train.index
    labels = index.rows["label"]
    counts = np.bincount(labels, minlength=len(index.labels))
    encoded = task.encode(task.train)
    unknown = task.tokenizer.vocabulary.index["<unk>"]
    parts = {"train": splits.train, **splits.validation, **splits.test}
    return {
        "rows": len(index.rows),
        "columns": columns(task.train),
        "notes": list(splits.notes),
        "classes": {label: int(count) for label, count in zip(index.labels, counts, strict=True)},
        "tokens": {"kind": task.recipe.data.tokenizer, "different": len(task.tokenizer), **lengths(encoded.sizes)},
        "histogram": histogram(encoded.sizes),
        "cut_off": {limit: cut_off(encoded.sizes, limit) for limit in sorted({*LIMITS, task.length})},
        "duplicates": duplicates(index.rows["text"], labels),
        "parts": {name: len(data) for name, data in parts.items()},
        "unknown": {name: share_of(unknown, data) for name, data in parts.items()},
    }


def columns(corpus: Corpus) -> dict[str, str]:
    reading = corpus.reading
    return {**corpus.columns, **({"group": reading.group} if reading.group else {})}


def lengths(sizes: np.ndarray) -> dict[str, float]:
    return {
        "total": int(sizes.sum()),
        "shortest": int(sizes.min()),
        "median": float(np.median(sizes)),
        "mean": float(sizes.mean()),
        "of_95_percent_at_most": float(np.percentile(sizes, 95)),
        "longest": int(sizes.max()),
    }


def histogram(sizes: np.ndarray, bins: int = 60) -> dict[str, Any]:
    """Of the lengths; the longest 1 % are left out, because they would squeeze the others together."""
    top = int(np.percentile(sizes, 99)) + 1
    counts, _ = np.histogram(sizes[sizes <= top], bins=bins, range=(0, top))
    return {"up_to": top, "counts": counts.tolist()}


def cut_off(sizes: np.ndarray, limit: int) -> dict[str, float]:
    """The share of texts that a maximum length truncates, and of all tokens that are lost."""
    lost = np.maximum(sizes - limit, 0).sum()
    return {"texts": float((sizes > limit).mean()), "tokens": float(lost / max(sizes.sum(), 1))}


def duplicates(texts: np.ndarray, labels: np.ndarray) -> dict[str, int]:
    """The number of rows that repeat a text, and of texts with more than one label."""
    distinct = np.unique(texts)
    pairs = np.unique(np.stack([texts, labels.astype(np.uint64)], axis=1), axis=0)
    _, labels_of = np.unique(pairs[:, 0], return_counts=True)
    return {"rows": len(texts) - len(distinct), "texts_with_several_labels": int((labels_of > 1).sum())}


def share_of(token: int, data: LabelledSequences) -> float:
    """The share of a token among all tokens."""
    hits = total = 0
    for start, size in zip(data.starts, data.sizes, strict=True):
        hits += int(np.count_nonzero(data.tokens[start : start + size] == token))
        total += int(size)
    return hits / max(total, 1)
