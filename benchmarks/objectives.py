"""What each pre-training objective is worth: the same network, texts and tokens for all, then the same fine-tuning.

    python benchmarks/objectives.py --texts reviews.jsonl,more.jsonl --labelled train.jsonl --test test.jsonl

Every objective reads as many tokens. Fine-tuning is one recipe with these labels; its score is the accuracy on
the test file, beside that of a network that begins with nothing. Runs stay in --out; what is done is not done again.
"""

import argparse
import statistics
from pathlib import Path

from headway import recipes
from headway.config.recipe import Recipe
from headway.runs.fit import resume, start
from headway.runs.run import Run

OBJECTIVES = {
    "masked": "masked(rate=0.3)",
    "masked, and the next part": "next(rate=0.3)",
    "replaced tokens": "replaced(rate=0.15)",
    "spans": "span(rate=0.15, mean=3)",
    "causal": "causal",
    "prefix": "prefix",
}
SCRATCH = "nothing: from scratch"


def train(recipe: Recipe, folder: Path) -> Run:
    session = resume(folder) if folder.exists() else start(recipe, folder)
    for _ in session.steps():
        pass
    return session.run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", required=True, help="to pre-train on; texts of --test are left out")
    parser.add_argument("--labelled", required=True, help="to fine-tune on")
    parser.add_argument("--test", required=True)
    parser.add_argument("--recipe", default="pretrain", help="of pre-training")
    parser.add_argument("--tuning", default="adapt", help="the recipe of fine-tuning")
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"))
    parser.add_argument("--pretrain", nargs="*", default=[], metavar="KEY=VALUE", help="settings of pre-training")
    parser.add_argument("--tune", nargs="*", default=[], metavar="KEY=VALUE", help="settings of fine-tuning")
    options = parser.parse_args()
    texts = [f"data.train={options.texts}", f"data.exclude={options.test}"]
    labelled = [f"data.train={options.labelled}", f"data.test={options.test}", *options.tune]
    print("| learned from texts | seconds | accuracy after fine-tuning | mean |")
    print("| --- | --- | --- | --- |", flush=True)
    for name, objective in {SCRATCH: "masked(rate=0.3)", **OBJECTIVES}.items():
        place = options.out / name.replace(":", "").replace(",", "").replace(" ", "-")
        words = [*texts, *options.pretrain, f"data.objective={objective}"]
        words += ["train.steps=1", "train.learning_rate=0"] if name == SCRATCH else []
        first = train(recipes.load(options.recipe, words), place / "pretrained")
        found = []
        for seed in range(1, options.seeds + 1):
            words = [f"start={first.folder}", *labelled, f"train.seed={seed}"]
            tuned = train(recipes.load(options.tuning, words), place / f"tuned-{seed}")
            found.append(tuned.results["test"]["test"]["accuracy"])
        each = ", ".join(f"{score:.4f}" for score in found)
        print(f"| {name} | {first.results['seconds']:.0f} | {each} | {statistics.mean(found):.4f} |", flush=True)


if __name__ == "__main__":
    main()
