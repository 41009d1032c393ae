"""A run that remembers, and draws random numbers, wherever it can; and what has to have the same bits in the end."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from headway.runs.run import Run

EXACT = [  # everything that remembers, or draws random numbers
    *("data.examples=300", "data.tests=60", "data.shortest=6", "model.width=16", "model.heads=2", "model.layers=1"),
    *("model.dropout=0.1", "model.attention_dropout=0.1", "train.steps=90", "train.batch_size=33"),
    *("train.accumulate=2", "train.grad_clip=0.1", "train.average=ema(decay=0.9)", "train.patience=20"),
    *("train.evaluate_every=10", "train.checkpoint_every=5", "train.log_every=1", "train.device=cpu", "train.grains=4"),
]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "headway", *words]


def contents(run: Run) -> dict[str, bytes]:
    steps = (run.results["steps"], run.results["weights_of_step"])
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in run.checkpoints.rglob("*.safetensors")
        if int(path.parent.name[5:]) in steps
    }


def losses(run: Run) -> list[tuple[int, Any, Any]]:
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    return [(each["step"], each.get("train", {}).get("loss"), each.get("validation")) for each in records]


def children_of(process: "subprocess.Popen[str]") -> list[int]:
    return [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
