"""A picture of a reward model: its rewards, and how often a pair is ranked right."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.lab.plot import pyplot, save


def save_rewards(path: Path, sets: Mapping[str, Mapping[str, Any]]) -> None:
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
