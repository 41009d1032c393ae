"""A file of labelled texts as headway reads it, before training: columns, classes, lengths, duplicates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway import recipes
from headway.data.corpus import Corpus
from headway.data.files import Progress, silent
from headway.data.sequences import LabelledSequences
from headway.tasks.classify import Classify

LIMITS = (64, 128, 256, 512, 1024)  # lengths for which truncation is reported


def survey(file: Path, overrides: Sequence[str] = (), progress: Progress = silent) -> dict[str, Any]:
    task = Classify(recipes.load("classify", [f"data.train={file}", *overrides]))
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
