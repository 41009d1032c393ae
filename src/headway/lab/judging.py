"""What lies behind a reward model's share of pairs that it ranks right: how its rewards are spread over better and
worse answers, and how far a difference between two can be trusted."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from headway.lab.plot import pyplot, save
from headway.tasks.rlhf.pairwise import Judgement

BINS = 24


def of_pairs(found: Judgement) -> dict[str, Any]:
    borders = np.histogram_bin_edges(np.concatenate([found.better, found.worse]), BINS)
    counted = {name: np.histogram(rewards, borders)[0] for name, rewards in found.sides.items()}
    return {
        "rewards": {"borders": borders.tolist(), **{name: counts.tolist() for name, counts in counted.items()}},
        "calibration": [asdict(each) for each in found.calibration()[1]],
    }


def save_judgement(path: Path, sets: Mapping[str, Mapping[str, Any]]) -> None:
    """A row for each test set: the rewards, and how often a pair is ranked right by how sure the model is."""
    plot = pyplot()
    figure, rows = plot.subplots(len(sets), 2, figsize=(11, 4 * len(sets)), layout="constrained", squeeze=False)
    for (name, found), (left, right) in zip(sets.items(), rows, strict=True):
        for side in ("better", "worse"):
            left.stairs(found["rewards"][side], found["rewards"]["borders"], fill=True, alpha=0.5, label=side)
        left.set(xlabel="reward", ylabel="pairs", title=f"{name}: the better and the worse answer of a pair")
        left.legend()
        bins = found["calibration"]
        right.plot([0.5, 1], [0.5, 1], color="grey", linewidth=1)
        right.plot([each["confidence"] for each in bins], [each["accuracy"] for each in bins], marker="o")
        right.set(xlabel="how sure it is", ylabel="how often it is right", title=f"{name}: can it be trusted?")
        right.grid(alpha=0.3)
    save(figure, path)
