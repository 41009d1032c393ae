"""Trains word vectors beside gensim's, with the same settings on the same text: words a second, how good they are, and
how much memory it takes.

    python benchmarks/vectors.py --text novels.txt --objective skipgram --measure wordsim353.txt questions-words.txt

The text has a sentence or a paragraph a line, words with spaces between them. Width 100, window 5, 5 negatives, 5
epochs, words that come 5 times; with --units ngrams, 2,000,000 buckets of n-grams of 3 to 6 letters. gensim reads the
file itself (corpus_file), which is its fastest way. Each side has a process of its own, and they take turns, seed after
seed; a ratio is the median. What is timed is the training, not the counting of words before it; the memory is the most
that a process had, everything included, less the pages of files that it has mapped. Neither side has the other's
libraries in its memory; of ours, torch and numba are a good part.

Ours runs on a GPU where there is one, gensim's on --threads cores of the same machine.

With --threads above 1 gensim lowers its learning rate by what one of its workers has read, so that an epoch ends with
the rate that it should have earlier: to compare how good vectors are, take --threads 1.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from memory import Watched

if TYPE_CHECKING:
    from headway.tasks.word2vec.word_vectors import WordVectors

EPOCHS = 5


class Case(NamedTuple):
    text: Path
    objective: str
    units: str
    threads: int
    seed: int
    measures: list[Path]
    batch: int


class Outcome(NamedTuple):
    speed: float  # words a second
    scores: dict[str, float]
    memory: float  # GiB


def ours(case: Case, folder: Path) -> tuple[Callable[[], "WordVectors"], float]:
    """The vectors, and the seconds that their training took."""
    from headway import recipes
    from headway.runs.fit import start
    from headway.runs.warm_start import word_vectors_of
    from headway.tasks.word2vec.cpu_engine import epoch_key

    words = [f"data.train={case.text}", f"data.objective={case.objective}", f"data.units={case.units}"]
    words += [f"train.seed={case.seed}", f"train.epochs={EPOCHS}", f"train.threads={case.threads}"]
    words += [f"train.batch_size={case.batch}"]
    session = start(recipes.load("vectors", words), folder / "run")
    loop: Any = session.loop
    loop.engine.learn(0, 1, 0.0, epoch_key(0, 0))  # compiles, and moves nothing
    began = perf_counter()
    for _ in session.steps():
        pass
    seconds = perf_counter() - began
    return lambda: word_vectors_of(session.run.folder), seconds


def theirs(case: Case, folder: Path) -> tuple[Callable[[], "WordVectors"], float]:
    sizes: dict[str, Any] = {"vector_size": 100, "window": 5, "negative": 5, "min_count": 5, "sample": 1e-3}
    models: Any = import_module("gensim.models")
    make = models.Word2Vec if case.units == "words" else models.FastText
    model = make(**sizes, sg=case.objective == "skipgram", workers=case.threads, seed=case.seed)
    model.build_vocab(corpus_file=str(case.text))
    total, lines = model.corpus_total_words, model.corpus_count
    began = perf_counter()
    model.train(corpus_file=str(case.text), total_words=total, total_examples=lines, epochs=EPOCHS)
    seconds = perf_counter() - began

    def table() -> "WordVectors":
        from headway.tasks.word2vec.ngrams import Ngrams
        from headway.tasks.word2vec.word_vectors import Buckets, WordVectors

        found = model.wv
        own = None if case.units == "words" else Buckets(Ngrams(), found.vectors_ngrams, found.vectors_vocab)
        return WordVectors(list(found.index_to_key), found.vectors, own)

    return table, seconds


SIDES = {"headway": ours, "gensim": theirs}


def scores(table: "WordVectors", files: list[Path]) -> dict[str, float]:
    from headway.lab.word_vectors import has_questions, judged_pairs, questions
    from headway.tasks.word2vec.evaluation import analogies, similarities

    found = {}
    for path in files:
        if has_questions(path):
            sections = [analogies(table, name, asked) for name, asked in questions(path).items()]
            found[path.name] = sum(each.right for each in sections) / max(sum(each.asked for each in sections), 1)
        else:
            found[path.name] = similarities(table, judged_pairs(path)).spearman or 0.0
    return found


def words_in(text: Path) -> int:
    with text.open(encoding="utf-8") as lines:
        return sum(len(line.split()) for line in lines)


def measured(side: str, case: Case) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        with Watched() as memory:
            table, seconds = SIDES[side](case, Path(folder))
        return Outcome(words_in(case.text) * EPOCHS / seconds, scores(table(), case.measures), memory.most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--objective", choices=["skipgram", "cbow"], default="skipgram")
    parser.add_argument("--units", choices=["words", "ngrams"], default="words")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch", type=int, default=100_000, help="words in a step of ours; on a GPU, more are faster")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--measure", type=Path, nargs="*", default=[], help="pairs with scores, or analogies")
    options = parser.parse_args()
    found: dict[str, list[Outcome]] = {side: [] for side in SIDES}
    for seed in range(1, options.seeds + 1):
        how = options.units, options.threads, seed, options.measure, options.batch
        case = Case(options.text, options.objective, *how)
        for side, outcomes in found.items():
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                outcome = pool.submit(measured, side, case).result()
            outcomes.append(outcome)
            words = "  ".join(f"{name} {score:.4f}" for name, score in outcome.scores.items())
            print(f"{side}, seed {seed}: {outcome.speed:,.0f} words/s  {outcome.memory:.2f} GiB  {words}", flush=True)
    for what in ("speed", "memory"):
        ratios = [getattr(our, what) / getattr(their, what) for our, their in zip(*found.values(), strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{options.objective}, {what}, headway over gensim: {statistics.median(ratios):.2f} ({spread})")


if __name__ == "__main__":
    main()
