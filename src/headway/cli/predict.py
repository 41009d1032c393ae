"""predict, embed."""

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.options import FILE, OutFile, piped_lines, reading_option, run_argument
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, prints, short
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.api.batch import Processed


@click.command()
@run_argument
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=FILE, help="Read the texts from a file, in any format that headway reads.")
@click.option(
    "--out", type=OutFile(), help="With --file: write labels to this file (.parquet or .jsonl); can be interrupted."
)
@reading_option
@click.option("--jsonl", is_flag=True, help="Print one JSON object per line, as predictions arrive.")
@prints
def predict(
    run: Path, texts: tuple[str, ...], file: Path | None, out: Path | None, overrides: tuple[str, ...], jsonl: bool
) -> Output:
    """Predict the label of each TEXT with a trained RUN, or the tags of its words and the spans that they mark. Texts
    may also come from a file or from standard input.

    \b
    Examples:
      headway predict runs/parity-1 0110100110010110
      headway predict runs/classify-1 --file new.csv --jsonl > answers.jsonl
      headway predict runs/classify-1 --file big.parquet --out labels.parquet
      headway predict runs/tag-1 "def area(self): return self.width"
      cat strings.txt | headway predict runs/parity-1 --json
    """
    from headway.api.model import load

    if texts and file:
        raise Problem("give either texts or --file, not both")
    if jsonl and click.get_current_context().params["as_json"]:
        raise Problem("give either --json or --jsonl, not both")
    model = load(run)
    if out is not None:
        if file is None or jsonl:
            raise Problem("--out goes with --file: the labels of its texts are written there")
        return processed(model.predict_file(file, out, settings=overrides, progress=following()), model.run.notes)
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


def processed(done: "Processed", notes: list[str]) -> Output:
    """What was done with a file."""
    reused = f"; {done.reused:,} of them were done before it was interrupted" if done.reused else ""
    return Output(done._asdict(), [f"{done.texts:,} texts in {done.out}{reused}"], notes=notes)


@click.command()
@run_argument
@click.option("--file", type=FILE, required=True, help="File of texts, in any format that headway reads.")
@click.option("--out", type=OutFile(), required=True, help="File to write: .parquet or .jsonl.")
@reading_option
@prints
def embed(run: Path, file: Path, out: Path, overrides: tuple[str, ...]) -> Output:
    """Write a vector for each text of a file: what the head of a classifier reads, or the mean of the last hidden
    states of another RUN. Files may have any size; a call that was interrupted goes on where it was.

    \b
    Example:
      headway embed runs/classify-1 --file big.parquet --out vectors.parquet
    """
    from headway.api.model import load

    model = load(run)
    return processed(model.embed_file(file, out, settings=overrides, progress=following()), model.run.notes)
