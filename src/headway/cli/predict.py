"""predict."""

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import click

from headway.cli.options import FILE, piped_lines, reading_option, run_argument
from headway.cli.render import Block, Output, Table, prints, short
from headway.config.errors import Problem


@click.command()
@run_argument
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=FILE, help="Read the texts from a file, in any format that headway reads.")
@reading_option
@click.option("--jsonl", is_flag=True, help="Print one JSON object per line, as predictions arrive.")
@prints
def predict(run: Path, texts: tuple[str, ...], file: Path | None, overrides: tuple[str, ...], jsonl: bool) -> Output:
    """Predict the label of each TEXT with a trained RUN, or the tags of its words and the spans that they mark. Texts
    may also come from a file or from standard input.

    \b
    Examples:
      headway predict runs/parity-1 0110100110010110
      headway predict runs/classify-1 --file new.csv --jsonl > answers.jsonl
      headway predict runs/tag-1 "def area(self): return self.width"
      cat strings.txt | headway predict runs/parity-1 --json
    """
    from headway.api.model import load

    if texts and file:
        raise Problem("give either texts or --file, not both")
    if jsonl and click.get_current_context().params["as_json"]:
        raise Problem("give either --json or --jsonl, not both")
    model = load(run)
    if texts:
        predictions = iter(model.predict(texts, settings=overrides))
    else:
        predictions = model.predict_iter(file or piped_lines(), settings=overrides)
    first = next(predictions, None)
    if first is None:
        where = f"{file} is empty" if file else "there is no text"
        raise Problem(f"{where}: try headway predict {run} {shlex.quote(model.example)}")
    predictions = chain([first], predictions)
    if jsonl:
        lines = (json.dumps(asdict(each), ensure_ascii=False) for each in predictions)
        return Output(None, lines, notes=model.run.notes)
    blocks = taggings(predictions) if "words" in vars(first) else [labels(predictions)]
    return Output(lambda: list(predictions), blocks, ["headway", "evaluate", run], model.run.notes)


def labels(predictions: Iterable[Any]) -> Table:
    rows = ((short(each.text), each.label, each.probability) for each in predictions)
    return Table(["text", "label", "probability"], rows)


def taggings(predictions: Iterable[Any]) -> Iterator[Block]:
    """For each text the tags of its words, and the spans that they mark."""
    for number, each in enumerate(predictions):
        yield f"{'' if number == 0 else chr(10)}{short(each.text)}"
        if not each.words:
            yield "it has no words"
            continue
        yield Table(
            ["word", "tag", "probability", "characters"],
            [(short(word.text), word.label, word.probability, f"{word.start}-{word.end}") for word in each.words],
        )
        if each.spans:
            rows = [(short(span.text), span.label, f"{span.start}-{span.end}") for span in each.spans]
            yield ""
            yield Table(["span", "type", "characters"], rows)
