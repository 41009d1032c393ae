"""Tokenizers for many languages on Tatoeba: what the kind, the mixture and groups of languages make of each language.

The file has the columns lang, eng and text, separated by tabs: a sentence in a language and its English translation.

    python benchmarks/fertility.py tatoeba112.tsv.xz --out runs/tokenizers

It writes train.jsonl and test.jsonl into the folder; a tenth of the English sentences is held out, with all of their
translations. Then it learns tokenizers of one size from the training texts, and compares them on the others.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import headway as hw
from headway.data.files import open_text

KINDS = ("bpe", "char_bpe", "unigram")
MIXTURES = ("proportional", "temperature(alpha=0.3)", "uniform")
Row = dict[str, str]


def read_pairs(source: Path) -> list[Row]:
    """Quotation marks in the file are part of the text."""
    with open_text(source, "utf-8") as file:
        header = next(file).rstrip("\n").split("\t")
        return [dict(zip(header, line.rstrip("\n").split("\t"), strict=True)) for line in file]


def write(rows: Iterable[Row], path: Path) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path


def write_parts(source: Path, folder: Path) -> tuple[Path, Path]:
    """The texts to learn from, in which every English sentence stands once, and pairs to measure on."""
    pairs = read_pairs(source)
    held_out = {row["eng"] for row in pairs if crc32(row["eng"].encode()) % 10 == 0}
    known = [row for row in pairs if row["eng"] not in held_out]
    texts = [{"language": row["lang"], "text": row["text"]} for row in known]
    texts += [{"language": "eng", "text": text} for text in dict.fromkeys(row["eng"] for row in known)]
    return write(texts, folder / "train.jsonl"), write(
        (row for row in pairs if row["eng"] in held_out), folder / "test.jsonl"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/tokenizers"))
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--prepare", action="store_true", help="write the texts only")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train, test = write_parts(options.file, options.out)
    if options.prepare:
        return
    made = []
    for kind in KINDS:
        for mixture in MIXTURES:
            made.append(options.out / f"{kind} {mixture}.json")
            if not made[-1].exists():
                hw.train_tokenizer(
                    train,
                    kind=kind,
                    vocab_size=options.vocab_size,
                    language="language",
                    mixture=mixture,
                    out=made[-1],
                    progress=False,
                )
    comparison = hw.compare_tokenizers(made, test, language="lang", translation="eng", progress=False)
    print(comparison.table(), comparison.script_table(), comparison.language_table(), sep="\n\n")
    comparison.plot().save(options.out / "languages.png")


if __name__ == "__main__":
    main()
