"""predict."""

import json
import shlex
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import click

from headway.cli.options import FILE, piped_lines, reading_option, run_argument
from headway.cli.render import Output, Table, prints, short
from headway.config.errors import Problem


@click.command()
@run_argument
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=FILE, help="Read the texts from a file, in any format that headway reads.")
@reading_option
@click.option("--jsonl", is_flag=True, help="Print one JSON object per line, as predictions arrive.")
@prints
def predict(run: Path, texts: tuple[str, ...], file: Path | None, overrides: tuple[str, ...], jsonl: bool) -> Output:
    """Predict the label of each TEXT with a trained RUN. Texts may also come from a file or from standard input.

    \b
    Examples:
      headway predict runs/parity-1 0110100110010110
      headway predict runs/classify-1 --file new.csv --jsonl > answers.jsonl
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
    rows = ((short(each.text), each.label, each.probability) for each in predictions)
    blocks = [Table(["text", "label", "probability"], rows)]
    return Output(lambda: list(predictions), blocks, ["headway", "evaluate", run], model.run.notes)
