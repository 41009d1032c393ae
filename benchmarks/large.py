"""Shows that a file larger than memory can be read, counted and encoded: by a process that may have a gibibyte at most.

    python benchmarks/large.py              # makes a CSV file of 2 GB, and takes ten minutes on two cores
    python benchmarks/large.py --size 0.05

The limit is on addresses (RLIMIT_AS): the program, its libraries and all that it maps count.
"""

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from headway.data.corpus import Corpus
from headway.data.examples import Reading
from headway.data.grammar import LABELS, review
from headway.text.tokenizer import Tokenizer

LIMIT = 1 << 30


def write(path: Path, size: int) -> int:
    """Reviews in random order, each with a number of its own, so that no two are equal."""
    random = np.random.default_rng(0)
    texts = [(review(place % 2, 20, random), LABELS[place % 2]) for place in range(2000)]
    rows = 0
    with path.open("w", newline="") as file:
        generator = csv.writer(file)
        generator.writerow(["text", "label"])
        while file.tell() < size:
            text, label = texts[int(random.integers(len(texts)))]
            generator.writerow([f"review {rows} . {text}", label])
            rows += 1
    return rows


def encode(path: Path) -> None:
    """What a run does before it trains; it holds no text longer than it needs it."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    corpus = Corpus(path, Reading())
    steps = {
        "indexed": lambda: f"{len(corpus.index.rows):,} rows, labels {corpus.index.labels}",
        "counted": lambda: f"{len(learned(corpus)):,} different words",
        "encoded": lambda: f"{int(encoded_lengths(corpus).sum()):,} tokens",
    }
    for name, step in steps.items():
        began = perf_counter()
        print(f"{name}: {step()} in {perf_counter() - began:.0f} s", flush=True)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmPeak"))
    print(f"most addresses at once: {int(peak.split()[1]) / 1024:.0f} MiB of {LIMIT >> 20}")


def learned(corpus: Corpus) -> Tokenizer:
    path = Path(os.environ["HEADWAY_CACHE"]) / "tokenizer.json"
    if not path.exists():
        tokenizer = Tokenizer.learn("word", corpus.texts("counting"), "nfkc lower", 50_000, 2)
        path.write_text(tokenizer.to_json(), encoding="utf-8")
    return Tokenizer.load(path)


def encoded_lengths(corpus: Corpus) -> np.ndarray:
    folder = corpus.keep_tokens(learned(corpus))  # not mapped: the tokens alone would pass the limit
    return np.load(folder / "lengths.npy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=2.0, help="of the file, in GB")
    parser.add_argument("--encode", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.encode:
        encode(options.encode)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        rows = write(path, int(options.size * 1e9))
        print(f"a file of {path.stat().st_size / 1e9:.2f} GB, {rows:,} rows")
        cache = Path(folder) / "cache"
        cache.mkdir()
        command = [sys.executable, __file__, "--encode", str(path)]
        sys.exit(subprocess.run(command, env=os.environ | {"HEADWAY_CACHE": str(cache)}, check=False).returncode)


if __name__ == "__main__":
    main()
