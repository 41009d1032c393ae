"""Language identification on the Universal Declaration of Human Rights: a network beside counts of character n-grams.

The file has a JSON object in each line, with the language as iso639_3 and the paragraphs in a tree called segments. The
same paragraphs are held out in every language: in texts that translate each other, and in several spellings of one
language, others would tell too much.

    python benchmarks/languages.py udhr.jsonl.xz --out runs/languages

--prepare only writes the paragraphs into the folder, as udhr.jsonl with the columns text, language and paragraph.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import balanced_accuracy_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import headway as hw
from headway import recipes
from headway.data.files import open_text
from headway.tasks.classify import Classify

SMOOTHING = (1.0, 0.1, 0.01, 0.001)  # of which the one that is best on the validation part is taken


def paragraphs(tree: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Names and texts: ``1.0`` is the beginning of article 1."""
    if isinstance(tree, str):
        yield name, tree
        return
    for key, branch in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from paragraphs(branch, f"{name}.{key}".removeprefix("."))


def write_paragraphs(source: Path, target: Path) -> Path:
    with open_text(source, "utf-8") as file, target.open("w", encoding="utf-8") as out:
        for line in file:
            row = json.loads(line)
            for name, text in paragraphs(row["segments"]):
                fields = {"text": text, "language": row["iso639_3"], "paragraph": name}
                out.write(json.dumps(fields, ensure_ascii=False) + "\n")
    return target


def baseline(task: Classify) -> dict[str, float]:
    """Naive Bayes over character n-grams within words, on the rows of the network's training, validation and test."""
    labels = np.array(task.labels)[task.train.index.rows["label"]]
    texts = {use: list(task.train.texts("reading", rows)) for use, rows in task.parts.items()}

    def accuracy(model: Any, use: str) -> tuple[float, float]:
        said, true = model.predict(texts[use]), labels[task.parts[use]]
        return balanced_accuracy_score(true, said), float((said == true).mean())

    begin = time.perf_counter()
    models = []
    for smoothing in SMOOTHING:
        counts = CountVectorizer(analyzer="char_wb", ngram_range=(1, 4), max_features=200_000, dtype=np.float32)
        model = make_pipeline(counts, MultinomialNB(alpha=smoothing, fit_prior=False))
        models.append(model.fit(texts["train"], labels[task.parts["train"]]))
    best = max(models, key=lambda model: accuracy(model, "validation"))
    macro, micro = accuracy(best, "test")
    return {"balanced_accuracy": macro, "accuracy": micro, "seconds": time.perf_counter() - begin}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/languages"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--prepare", action="store_true", help="write udhr.jsonl only")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the recipe")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = write_paragraphs(options.file, options.out / "udhr.jsonl")
    if options.prepare:
        return
    for seed in range(options.seeds):
        settings = [f"data.train={path}", "data.group=paragraph", f"train.seed={seed}", *options.set]
        task = recipes.task("languages-many", settings)
        assert isinstance(task, Classify)
        task.prepare()
        print(json.dumps({"seed": seed, "model": "n-grams", **baseline(task)}), flush=True)
        begin = time.perf_counter()
        model = hw.train("languages-many", settings=settings, out=options.out / f"seed-{seed}")
        scores = model.metrics["test"]
        print(json.dumps({"seed": seed, "model": "network", **scores, "seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
