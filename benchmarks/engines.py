"""Translation by other engines beside ours: BLEU and time on the same sentences.

    python benchmarks/engines.py runs/translate-1 test.en.gz test.de.gz [ROUNDS]

The run is any trained translator. Its exports are made first, in its folder; each engine is warmed up once, then all
take turns. On as many threads as torch has.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

import headway as hw
from headway.api.files import read_lines
from headway.interop.exportable import Exportable
from headway.interop.to_ctranslate2 import Engine

ROUNDS = 3


def main(folder: str, source: str, target: str, rounds: int = ROUNDS) -> None:
    model = hw.load(folder)
    texts, references = read_lines(source), read_lines(target)
    beam = model.run.task.recipe.data
    with tempfile.TemporaryDirectory() as made:
        engines: dict[str, Callable[[], list[str]]] = {"headway": lambda: model.translate(texts)}
        for name, int8 in (("ctranslate2", False), ("ctranslate2, int8", True)):
            out = Path(made, name.replace(", ", "-"))
            exported = model.export(out, to="ctranslate2", int8=int8)
            print(f"{name}: {exported.same} of {exported.texts} texts tried are the same")
            engine = Engine(out, Exportable(model.run))
            engines[name] = lambda engine=engine: engine.translate(texts, beam.beam, beam.length_penalty)  # type: ignore[misc]
        written = {name: translate() for name, translate in engines.items()}
        seconds: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(rounds):
            for name, translate in engines.items():
                began = perf_counter()
                translate()
                seconds[name].append(perf_counter() - began)
    usual = statistics.median(seconds["headway"])
    print(f"{len(texts):,} sentences, beam {beam.beam}, {torch.get_num_threads()} threads, median of {rounds} rounds")
    for name, translations in written.items():
        bleu = next(each.score for each in hw.bleu(translations, references) if each.name == "bleu")
        same = sum(own == other for own, other in zip(written["headway"], translations, strict=True)) / len(texts)
        spent = statistics.median(seconds[name])
        print(f"{name:20} BLEU {bleu:6.2f}  same {same:7.1%}  {spent:6.2f} s  {usual / spent:5.2f} times as fast")


if __name__ == "__main__":
    run, sources, targets, *number = sys.argv[1:]
    main(run, sources, targets, *map(int, number))
