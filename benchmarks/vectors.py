"""Trains word vectors beside gensim's, with the same settings on the same text: words a second, and how good they are.

    python benchmarks/vectors.py --text novels.txt --objective skipgram --measure wordsim353.txt questions-words.txt

The text has a sentence or a paragraph a line, words with spaces between them. Width 100, window 5, 5 negatives, 5
epochs, words that come 5 times, all cores. gensim reads the file itself (corpus_file), which is its fastest way. The
sides take turns, seed after seed; a ratio is the median. What is timed is the training, not the counting of words
before it.
"""

import argparse
import statistics
import tempfile
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from headway import recipes
from headway.data.vectors import Table
from headway.lab.words import is_of_questions, judged_pairs, questions
from headway.metrics.vectors import analogies, similarities
from headway.session import start
from headway.train.words import key_of, learn
from headway.vectors import table_of

EPOCHS = 5


def ours(text: Path, objective: str, seed: int) -> tuple[Table, float]:
    words = [f"data.train={text}", f"data.objective={objective}", f"train.seed={seed}", f"train.epochs={EPOCHS}"]
    with tempfile.TemporaryDirectory() as folder:
        session = start(recipes.load("vectors", words), Path(folder) / "run")
        loop: Any = session.loop
        learn(loop.text, loop.plan, loop.inputs, loop.outputs, 0, 1, 0.0, key_of(0, 0))  # compiles, and moves nothing
        began = perf_counter()
        for _ in session.steps():
            pass
        seconds = perf_counter() - began
        return table_of(session.run.folder), int(session.splits.train.sizes.sum()) * EPOCHS / seconds


def theirs(text: Path, objective: str, seed: int) -> tuple[Table, float]:
    sizes = {"vector_size": 100, "window": 5, "negative": 5, "min_count": 5, "sample": 1e-3}
    model: Any = import_module("gensim.models").Word2Vec(
        **sizes, sg=objective == "skipgram", workers=torch.get_num_threads(), seed=seed
    )
    model.build_vocab(corpus_file=str(text))
    total, lines = model.corpus_total_words, model.corpus_count
    began = perf_counter()
    model.train(corpus_file=str(text), total_words=total, total_examples=lines, epochs=EPOCHS)
    return Table(list(model.wv.index_to_key), model.wv.vectors), total * EPOCHS / (perf_counter() - began)


def measured(table: Table, files: list[Path]) -> dict[str, float]:
    found = {}
    for path in files:
        if is_of_questions(path):
            sections = [analogies(table, name, asked) for name, asked in questions(path).items()]
            found[path.name] = sum(each.right for each in sections) / max(sum(each.asked for each in sections), 1)
        else:
            found[path.name] = similarities(table, judged_pairs(path)).spearman
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--objective", choices=["skipgram", "cbow"], default="skipgram")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--measure", type=Path, nargs="*", default=[], help="pairs with scores, or analogies")
    options = parser.parse_args()
    speeds: dict[str, list[float]] = {"headway": [], "gensim": []}
    for seed in range(1, options.seeds + 1):
        for side, train in {"headway": ours, "gensim": theirs}.items():
            table, speed = train(options.text, options.objective, seed)
            speeds[side].append(speed)
            scores = "  ".join(f"{name} {score:.4f}" for name, score in measured(table, options.measure).items())
            print(f"{side}, seed {seed}: {speed:,.0f} words a second  {scores}", flush=True)
    ratios = [our / their for our, their in zip(*speeds.values(), strict=True)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"{options.objective}, headway over gensim: {statistics.median(ratios):.2f} ({spread})")


if __name__ == "__main__":
    main()
