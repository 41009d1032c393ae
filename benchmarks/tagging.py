"""Tags of Python tokens: LSTM against Transformer, a linear head against a CRF, beside the baselines.

Sequences of the standard library are held out by file. Each run has a folder of its own and is trained for at most
three minutes; what was trained before is not trained again, and what was stopped goes on.

    python benchmarks/tagging.py --out runs/tagging --seeds 3
"""

import argparse
from pathlib import Path

import numpy as np

import headway as hw
from headway.metrics.table import Table

LSTM = ["model.mixer=lstm(both=True)", "model.layers=1"]
TRANSFORMER = ["model.mixer=attention", "model.layers=2"]
VARIANTS = {
    "LSTM, linear": [*LSTM, "model.tag_head=linear"],
    "LSTM, CRF": [*LSTM, "model.tag_head=crf"],
    "LSTM, CRF, no characters": [*LSTM, "model.tag_head=crf", "model.characters=none"],
    "Transformer, linear": [*TRANSFORMER, "model.tag_head=linear"],
    "Transformer, CRF": [*TRANSFORMER, "model.tag_head=crf"],
}


def trained(folder: Path, settings: list[str]) -> hw.Model:
    if not folder.exists():
        return hw.train("tag", settings=settings, out=folder)
    return hw.Run(folder).load() if hw.Run(folder).is_done else hw.Run(folder).resume()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/tagging"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of all runs")
    options = parser.parse_args()
    models: dict[str, list[hw.Model]] = {name: [] for name in VARIANTS}
    for seed in range(1, options.seeds + 1):
        for number, (name, settings) in enumerate(VARIANTS.items()):
            given = [*settings, f"train.seed={seed}", "train.minutes=3", *options.set]
            models[name].append(trained(options.out / f"{number}-{seed}", given))
    rows = []
    for name, own in models.items():
        scores = [model.metrics["test"]["accuracy"] for model in own]
        steps = np.mean([model.run.results["steps"] for model in own])
        seconds = np.mean([model.run.results["seconds"] for model in own])
        spread = f"{min(scores):.4f} to {max(scores):.4f}"
        rows.append((name, float(np.mean(scores)), spread, own[0].parameters, round(steps), round(seconds)))
    print(Table(["model", "accuracy", "over seeds", "parameters", "steps", "seconds"], rows))
    first, *_ = next(iter(models.values()))
    print(hw.baseline(first).table())


if __name__ == "__main__":
    main()
