"""Mixtures of languages on Tatoeba: bits per byte of high-, middle- and low-resource languages by several rules.

The file has the columns lang, eng and text, separated by tabs: a sentence in a language and its English translation.

    python benchmarks/multilingual.py tatoeba112.tsv.xz --out runs/mixtures

It writes texts.jsonl into the folder, with the columns language and text, which other commands can read, too. English
has all its different sentences, so that it is one large language among many small ones.
"""

import argparse
import json
from pathlib import Path

import headway as hw
from headway.data.files import open_text

MIXTURES = (
    "proportional",
    *(f"temperature(alpha={alpha})" for alpha in (0.7, 0.5, 0.3)),
    "uniform",
    "unimax(epochs=4)",
)


def write_texts(source: Path, target: Path) -> None:
    """Quotation marks in the file are part of the text."""
    with open_text(source, "utf-8") as file, target.open("w", encoding="utf-8") as out:
        header = next(file).rstrip("\n").split("\t")
        rows = [dict(zip(header, line.rstrip("\n").split("\t"), strict=True)) for line in file]
        texts = [(row["lang"], row["text"]) for row in rows]
        texts += [("eng", text) for text in dict.fromkeys(row["eng"] for row in rows)]
        out.writelines(json.dumps({"language": name, "text": text}, ensure_ascii=False) + "\n" for name, text in texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/mixtures"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--mixtures", nargs="+", default=MIXTURES)
    parser.add_argument("--prepare", action="store_true", help="write texts.jsonl only")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    texts = options.out / "texts.jsonl"
    if not texts.exists():
        write_texts(options.file, texts)
    if options.prepare:
        return
    settings = {
        "data.language": "language",
        "data.validation": 0.1,
        "data.vocab_size": 6000,
        "data.window": 64,
        "train.steps": options.steps,
        "train.evaluate_every": options.steps,
        "train.threads": 1,
    }
    study = hw.compare(
        "language",
        data=texts,
        vary={"data.mixture": options.mixtures},
        seeds=options.seeds,
        settings=settings,
        out=options.out / "study",
        progress=True,
    )
    print(study.table())


if __name__ == "__main__":
    main()
