"""What headway sees in a file of labelled texts, before anything is trained on it."""

from typing import Any

import numpy as np

from headway.data.corpus import Corpus
from headway.data.sequences import LabelledSequences
from headway.tasks.classify import Classify

LIMITS = (64, 128, 256, 512, 1024)  # lengths at which to say how much would be cut off


def survey(task: Classify) -> dict[str, Any]:
    """Of a task that has been prepared."""
    splits, index = task.splits(task.progress), task.train.index
    labels = index.rows["label"]
    counts = np.bincount(labels, minlength=len(index.labels))
    whole = task.encode(task.train)
    unknown = task.tokenizer.vocabulary.index["<unk>"]
    parts = {"train": splits.train, **splits.validation, **splits.test}
    return {
        "rows": len(index.rows),
        "columns": columns(task.train),
        "notes": list(splits.notes),
        "classes": {label: int(count) for label, count in zip(index.labels, counts, strict=True)},
        "tokens": {"kind": task.recipe.data.tokenizer, "different": len(task.tokenizer), **lengths(whole.sizes)},
        "histogram": histogram(whole.sizes),
        "cut_off": {limit: cut_off(whole.sizes, limit) for limit in sorted({*LIMITS, task.length})},
        "duplicates": duplicates(index.rows["text"], labels),
        "parts": {name: len(data) for name, data in parts.items()},
        "unknown": {name: share_of(unknown, data) for name, data in parts.items()},
    }


def columns(corpus: Corpus) -> dict[str, str]:
    reading, asked = corpus.reading, corpus.columns
    return {**asked, **({"group": reading.group} if reading.group else {})}


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
    """How many texts have which length; the longest hundredth is left out, which would press the others together."""
    top = int(np.percentile(sizes, 99)) + 1
    counts, _ = np.histogram(sizes[sizes <= top], bins=bins, range=(0, top))
    return {"up_to": top, "counts": counts.tolist()}


def cut_off(sizes: np.ndarray, limit: int) -> dict[str, float]:
    """The share of texts that are longer, and of all tokens that they lose."""
    lost = np.maximum(sizes - limit, 0).sum()
    return {"texts": float((sizes > limit).mean()), "tokens": float(lost / max(sizes.sum(), 1))}


def duplicates(texts: np.ndarray, labels: np.ndarray) -> dict[str, int]:
    """How many rows repeat a text, and how many texts come with more than one label."""
    different = np.unique(texts)
    pairs = np.unique(np.stack([texts, labels.astype(np.uint64)], axis=1), axis=0)
    _, labels_of = np.unique(pairs[:, 0], return_counts=True)
    return {"rows": len(texts) - len(different), "texts_with_several_labels": int((labels_of > 1).sum())}


def share_of(token: int, data: LabelledSequences) -> float:
    """How much of the text a token is."""
    hits = total = 0
    for start, size in zip(data.starts, data.sizes, strict=True):
        hits += int(np.count_nonzero(data.tokens[start : start + size] == token))
        total += int(size)
    return hits / max(total, 1)
