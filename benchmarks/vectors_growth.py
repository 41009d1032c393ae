"""What word vectors cost as the text grows: seconds and memory, to read it (learn the words, count and encode) and to
train on it.

    python benchmarks/vectors_growth.py --sizes 0.25 0.5 1

The text is made up: words of two to eight letters, as frequent as words are (the n-th 1/n times as often as the first),
of given sizes in GiB. Each size has a process and a cache of its own. The memory is the most that the process had, less
the pages of files that it has mapped, which the system takes back when it needs them.
"""

import argparse
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np

from memory import Watched

WORDS, LINE, LINES = 200_000, 20, 50_000
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def write(path: Path, size: float) -> int:
    """Gives how many words there are."""
    random = np.random.default_rng(0)
    sizes = random.integers(2, 9, WORDS)
    words = np.array(["".join(LETTERS[random.integers(26, size=size)]) for size in sizes], object)
    chances = 1 / np.arange(1, WORDS + 1)
    ends = np.cumsum(chances / chances.sum())
    count = 0
    with path.open("w") as file:
        while file.tell() < size * 2**30:
            drawn = words[np.searchsorted(ends, random.random((LINES, LINE))).clip(max=WORDS - 1)]
            file.write("\n".join(map(" ".join, drawn)) + "\n")
            count += drawn.size
    return count


def measured(path: Path, objective: str) -> tuple[float, float, float]:
    """Seconds to read and to train, and the most memory in GiB."""
    os.environ["HEADWAY_CACHE"] = str(path.parent / "cache")
    with Watched() as memory:
        from headway import recipes
        from headway.runs.fit import start

        began = perf_counter()
        words = [f"data.train={path}", f"data.objective={objective}", "train.epochs=1", "train.batch_size=1000000"]
        session = start(recipes.load("vectors", words), path.parent / "run")
        read = perf_counter()
        for _ in session.steps():
            pass
        trained = perf_counter()
    return read - began, trained - read, memory.most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.25, 0.5, 1.0], help="in GiB")
    parser.add_argument("--objective", choices=["skipgram", "cbow"], default="cbow")
    options = parser.parse_args()
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "text.txt"
            words = write(path, size)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                reading, training, most = pool.submit(measured, path, options.objective).result()
        print(
            f"{size:g} GiB, {words / 1e6:.1f} M words: read in {reading:.1f} s, trained in {training:.1f} s "
            f"({words / training / 1e6:.2f} M words/s), {most:.2f} GiB of memory",
            flush=True,
        )


if __name__ == "__main__":
    main()
