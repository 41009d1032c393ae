"""Fine-tuning on short sentences after a few minutes of pre-training on other text, beside training from scratch.

The folders are those of IMDB (train.jsonl.xz, test.jsonl.xz, unsup.jsonl.xz) and of novels (novels.jsonl.xz).

    python benchmarks/short_sentences.py imdb novels --out runs/short

Two pairs of data sets: a model that read novels learns whether a sentence of a review is praise, and a model that read
reviews learns who wrote a sentence of a novel. What is done already is not done again, so it can be run in pieces
(``--pieces 3`` ends after three trainings).
"""

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import headway as hw
from headway.data.files import open_text

SENTENCE = re.compile(r"(?<=[.!?])\s+")
SHORTEST, LONGEST = 5, 30  # words
AUTHORS = 8
Row = dict[str, str]


def rows_in(path: Path) -> Iterator[dict[str, object]]:
    with open_text(path, "utf-8") as file:
        yield from map(json.loads, file)


def sentences(text: str) -> list[str]:
    pieces = (" ".join(piece.split()) for piece in SENTENCE.split(text.replace("<br />", " ")))
    return [piece for piece in pieces if SHORTEST <= len(piece.split()) <= LONGEST]


def of_reviews(path: Path, count: int) -> list[Row]:
    """The last sentence of each review, where the verdict often is."""
    reviews = list(rows_in(path))
    random.Random(1).shuffle(reviews)
    last = ((sentences(str(review["text"]))[-1:], str(review["label"])) for review in reviews)
    return [{"text": piece, "label": label} for pieces, label in last for piece in pieces][:count]


def of_authors(path: Path, count: int) -> list[Row]:
    """Sentences of the authors with most books."""
    books = defaultdict(list)
    for book in rows_in(path):
        books[str(book["author"])].append(str(book["text"]))
    authors = sorted(books, key=lambda name: (-len(books[name]), name))[:AUTHORS]
    draw, rows = random.Random(1), []
    for author in authors:
        own = sorted({piece for text in books[author] for piece in sentences(text)})
        rows += [{"text": text, "label": author} for text in draw.sample(own, count // AUTHORS)]
    draw.shuffle(rows)
    return rows


def written(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def some_reviews(path: Path) -> Iterator[Row]:
    for number, row in enumerate(rows_in(path)):
        if number % 5 == 0:
            yield {"text": str(row["text"])}


def some_paragraphs(path: Path) -> Iterator[Row]:
    """Of about the same size as the reviews."""
    for number, row in enumerate(rows_in(path)):
        if number % 6 == 0:
            yield from ({"text": line} for line in str(row["text"]).splitlines() if line.strip())


def make_data(imdb: Path, novels: Path, out: Path, count: int) -> None:
    if (out / "authors-test.jsonl").exists():
        return
    written(out / "authors-start.jsonl", list(some_reviews(imdb / "unsup.jsonl.xz")))
    written(out / "reviews-start.jsonl", list(some_paragraphs(novels / "novels.jsonl.xz")))
    written(out / "reviews-train.jsonl", of_reviews(imdb / "train.jsonl.xz", count))
    written(out / "reviews-test.jsonl", of_reviews(imdb / "test.jsonl.xz", count))
    both = of_authors(novels / "novels.jsonl.xz", 2 * count)
    written(out / "authors-train.jsonl", both[:count])
    written(out / "authors-test.jsonl", both[count:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("imdb", type=Path)
    parser.add_argument("novels", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/short"))
    parser.add_argument("--sentences", type=int, default=4000, help="for training, and for the test")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pairs", default="reviews,authors")
    parser.add_argument("--pieces", type=int, default=1000, help="end after so many trainings")
    parser.add_argument("--only", default="scratch,start", help="what to train: scratch, start")
    parser.add_argument("--name", default="", help="of these settings, for the folders of the runs")
    parser.add_argument("--pretrain", nargs="*", default=[], help="settings of the pre-training")
    parser.add_argument("--start", default="start", help="name of the pre-trained run")
    parser.add_argument("--tune", nargs="*", default=[], help="settings of the fine-tuning")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    make_data(options.imdb, options.novels, options.out, options.sentences)
    left = options.pieces
    for pair in options.pairs.split(","):
        start = options.out / f"{pair}-{options.start}"
        if not start.exists() and "start" in options.only:
            texts = options.out / f"{pair}-start.jsonl"
            hw.pretrain(data=texts, settings=["train.threads=1", *options.pretrain], out=start, progress=True)
            left -= 1
        elif "start" in options.only and not hw.Run(start).is_done:
            hw.Run(start).resume(progress=True)
        for what in options.only.split(","):
            scores = []
            for seed in range(1, options.seeds + 1):
                folder = options.out / f"{pair}-{what}{options.name}-{seed}"
                if not (folder / "results.json").exists():
                    if left <= 0:
                        return
                    left -= 1
                    hw.train(
                        "classify",
                        data=options.out / f"{pair}-train.jsonl",
                        test=options.out / f"{pair}-test.jsonl",
                        start=start if what == "start" else None,
                        settings=["train.threads=1", f"train.seed={seed}", *options.tune],
                        out=folder,
                        progress=False,
                    )
                scores.append(json.loads((folder / "results.json").read_text())["test"]["test"]["accuracy"])
            shown = ", ".join(f"{score:.4f}" for score in scores)
            print(f"{pair:8} {what}{options.name:20} {shown}  mean {mean(scores):.4f}", flush=True)


if __name__ == "__main__":
    main()
