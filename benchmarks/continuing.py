"""Continued pre-training on Multi30k: from English and German to French and Czech, with shares of replay.

The folder has a file of sentences for each language, train.en.gz and so on.

    python benchmarks/continuing.py multi30k --out runs/continuing

A model of English and German is trained first. It goes on with the other two languages and more pieces, with each share
of replay, beside a model that is trained on as many tokens of the new languages from scratch.
"""

import argparse
import json
from pathlib import Path

import headway as hw
from headway.data.files import open_text

OLD, NEW = ("en", "de"), ("fr", "cs")


def write(folder: Path, languages: tuple[str, ...], target: Path) -> Path:
    with target.open("w", encoding="utf-8") as out:
        for language in languages:
            with open_text(folder / f"train.{language}.gz", "utf-8") as file:
                rows = ({"language": language, "text": line.strip()} for line in file)
                out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/continuing"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    settings = {
        "data.language": "language",
        "data.vocab_size": 4000,
        "data.validation": 0.02,
        "data.window": 64,
        "train.steps": options.steps,
        "train.evaluate_every": options.steps // 10,
        "train.threads": 1,
    }
    start = options.out / "start"
    if not start.exists():
        hw.train(
            "language",
            data=write(options.folder, OLD, options.out / "old.jsonl"),
            settings=settings,
            out=start,
            progress=False,
        )
    study = hw.forgetting(
        start,
        write(options.folder, OLD + NEW, options.out / "all.jsonl"),
        seeds=options.seeds,
        settings={"data.extend_vocabulary": 2000},
        out=options.out / "study",
        progress=False,
    )
    print(study.table(), study.gain_table(), *study.notes, sep="\n\n")


if __name__ == "__main__":
    main()
