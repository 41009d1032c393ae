"""A report on a trained run: its metrics, and for a classifier or a reward model what its accuracy does not tell."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from headway.config.errors import Problem
from headway.data.files import Progress, silent
from headway.lab.judging import of_pairs
from headway.metrics.classification import Predictions, calibration, confusion, precision_recall_f1
from headway.models.decoder import Decoder
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.quick import FORMS, with_matrices
from headway.runs.rewards import rewards_of
from headway.runs.run import Run, measure_whole
from headway.tasks.labelling import Classification
from headway.tasks.rlhf.ppo import Ppo
from headway.tasks.rlhf.reward_model import Reward

MOST_MIXED_UP = 10  # pairs of classes that are named


def report(
    run: Run, data: Path | None = None, progress: Progress = silent, int8: bool = False
) -> dict[str, dict[str, Any]]:
    """Of each test set, or of a file of other data, its metrics and what lies behind them; with ``int8``, of a model
    whose matrices are rounded to whole numbers."""
    task, model = run.task, run.model()
    if isinstance(task, Ppo):
        task.rewards = rewards_of(run.recipe.data)
    if int8:
        model = rounded(model)
    sets: Mapping[str, Any] = task.splits(progress).test if data is None else task.data_in(data, progress)
    found: dict[str, dict[str, Any]] = {}
    for name, each in sets.items():
        if isinstance(task, Classification):
            metrics, predictions = task.tested(model, each)
            found[name] = metrics | details(predictions, task.labels)
        elif isinstance(task, Reward):
            found[name] = measure_whole(task, model, each) | of_pairs(task.judgement(model, each))
        else:
            found[name] = measure_whole(task, model, each)
    return found


def rounded(model: nn.Module) -> nn.Module:
    if not isinstance(model, Decoder | EncoderDecoder) or next(model.parameters()).is_cuda:
        raise Problem("int8 is for models that write, on a CPU")
    return with_matrices(model, FORMS["int8"])


def details(found: Predictions, labels: list[str]) -> dict[str, Any]:
    counts = confusion(found, len(labels))
    precision, recall, f1 = precision_recall_f1(counts)
    error, bins = calibration(found)
    there = counts.sum(axis=1)
    return {
        "f1": float(f1[counts.sum(axis=0) + there > 0].mean()),  # each class that is there or was said counts the same
        "calibration_error": error,
        "classes": [
            {
                "label": label,
                "precision": float(precision[place]),
                "recall": float(recall[place]),
                "f1": float(f1[place]),
                "examples": int(there[place]),
            }
            for place, label in enumerate(labels)
        ],
        "confusion": counts.tolist(),
        "mixed_up": mixed_up(counts, labels),
        "calibration": [asdict(each) for each in bins],
    }


def mixed_up(counts: np.ndarray, labels: list[str]) -> list[dict[str, Any]]:
    """The pairs of classes that are taken for each other most often."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_MIXED_UP]
    pairs = [np.unravel_index(place, wrong.shape) for place in order]
    return [
        {"true": labels[true], "said": labels[said], "examples": int(wrong[true, said])}
        for true, said in pairs
        if wrong[true, said]
    ]
