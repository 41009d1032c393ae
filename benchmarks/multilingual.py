"""Mixtures of languages on Tatoeba: bits per byte of high-, middle- and low-resource languages by several rules.

The file has the columns lang, eng and text, separated by tabs: a sentence in a language and its English translation.

    python benchmarks/multilingual.py tatoeba112.tsv.xz --out runs/mixtures

Its languages have a thousand sentences each, or fewer. Those with a thousand, and English, are taken; the first hundred
sentences of each are held out, and it is left to chance which languages keep all the others, which a fifth of them, and
which one of 25: high-, middle- and low-resource languages, of every family.

--prepare only writes the texts of all languages into the folder, as texts.jsonl with the columns language and text.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import headway as hw
from headway.data.files import open_text

MIXTURES = (
    "proportional",
    *(f"temperature(alpha={alpha})" for alpha in (0.7, 0.5, 0.3)),
    "uniform",
    "unimax(epochs=4)",
)
SENTENCES, HELD_OUT, FRACTIONS = 1000, 100, (1, 5, 25)
Rows = Iterable[tuple[str, str]]  # languages and texts


def read_texts(source: Path) -> Rows:
    """Each language's own sentences, then all the different English ones."""
    with open_text(source, "utf-8") as file:
        header = next(file).rstrip("\n").split("\t")
        rows = [dict(zip(header, line.rstrip("\n").split("\t"), strict=True)) for line in file]
    yield from ((row["lang"], row["text"]) for row in rows)
    yield from (("eng", text) for text in dict.fromkeys(row["eng"] for row in rows))


def write(rows: Rows, target: Path) -> Path:
    with target.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"language": name, "text": text}, ensure_ascii=False) + "\n" for name, text in rows)
    return target


def write_unequal(source: Path, folder: Path) -> tuple[Path, Path]:
    """Files to train and to test on."""
    texts = defaultdict(list)
    for name, text in read_texts(source):
        texts[name].append(text)
    random = np.random.default_rng(0)
    names = random.permutation(sorted(name for name, own in texts.items() if len(own) >= SENTENCES)).tolist()
    own = {name: random.permutation(np.array(texts[name], dtype=object))[:SENTENCES] for name in names}
    kept = {name: (SENTENCES - HELD_OUT) // FRACTIONS[place % 3] for place, name in enumerate(names)}
    train = ((name, text) for name in names for text in own[name][HELD_OUT : HELD_OUT + kept[name]])
    test = ((name, text) for name in names for text in own[name][:HELD_OUT])
    return write(train, folder / "train.jsonl"), write(test, folder / "test.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/mixtures"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--mixtures", nargs="+", default=MIXTURES)
    parser.add_argument("--prepare", action="store_true", help="write texts.jsonl only")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.prepare:
        write(read_texts(options.file), options.out / "texts.jsonl")
        return
    train, test = write_unequal(options.file, options.out)
    settings = {
        "data.language": "language",
        "data.validation": str(test),
        "data.vocab_size": 4000,
        "data.window": 32,
        "train.steps": options.steps,
        "train.evaluate_every": options.steps,
        "train.threads": 1,
    }
    study = hw.compare(
        "language",
        data=train,
        vary={"data.mixture": options.mixtures},
        seeds=options.seeds,
        settings=settings,
        out=options.out / "study",
        progress=True,
    )
    print(study.table())


if __name__ == "__main__":
    main()
