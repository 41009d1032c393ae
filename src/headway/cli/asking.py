"""The verbs that ask a trained run: evaluate, predict."""

import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import click

from headway.cli.output import OutFile, console, json_option, next_step, print_json, print_table, usage, warn
from headway.cli.progress import bars
from headway.cli.training import print_sets
from headway.config.errors import Problem

MOST_IN_A_MATRIX = 12  # classes

with_option = click.option(
    "--with",
    "words",
    multiple=True,
    metavar="KEY=VALUE",
    help="How to read the file: data.text=review, data.encoding=...",
)
run_argument = click.argument("run", type=click.Path(path_type=Path))


@click.command()
@run_argument
@click.option("--data", type=click.Path(path_type=Path), help="A file of other texts to measure on instead.")
@click.option("--int8", is_flag=True, help="With matrices rounded to whole numbers: what does it cost?")
@click.option("--picture", type=OutFile(), help="Of a reward model: draw its rewards into this file.")
@with_option
@json_option
def evaluate(
    run: Path, data: Path | None, int8: bool, picture: Path | None, words: tuple[str, ...], as_json: bool
) -> None:
    """Measure a trained RUN on all its test sets: accuracy, F1, which classes are mixed up, how far to trust it;
    perplexity and bits per byte of a language model; how a reward model ranks, and how its rewards are spread.

    \b
    Examples:
      headway evaluate runs/parity-1 --json
      headway evaluate runs/classify-1 --data more.csv
      headway evaluate runs/reward-1 --picture rewards.png
    """
    from headway.lab.reward_report import save_rewards
    from headway.runs.model import Model
    from headway.runs.run import Run

    trained = Run(run)
    trained.read_as(words)
    with bars() as shown:
        step, evaluations = trained.result().step, Model(trained).evaluate(data, shown, int8)
    found = {name: each.metrics | each.details for name, each in evaluations.items()}
    for message in trained.notes:
        warn(message)
    if picture is not None:
        if not all("rewards" in each for each in found.values()):
            raise Problem(f"{run} is a run of {trained.recipe.task}: pictures are of reward models")
        save_rewards(picture, found)
    if as_json:
        print_json({"run": str(run), "weights_of_step": step, "test": found, "notes": trained.notes})
        return
    console.print(f"{run}, weights of step {step:,}")
    numbers = {
        name: {metric: value for metric, value in each.items() if isinstance(value, int | float)}
        for name, each in found.items()
    }
    print_sets(numbers)
    for name, each in found.items():
        if "classes" in each:
            print_details(name, each)
        if "rewards" in each:
            print_rewards(name, each["rewards"])
        if "calibration" in each:
            print_calibration(name, each["calibration"])
    if picture is not None:
        console.print(f"\ndrawn in {picture}")
    next_step(*usage(trained))


def print_details(name: str, found: dict[str, Any]) -> None:
    """What single numbers hide."""
    classes = found["classes"]
    console.print(f"\n{name}: the classes")
    print_table(
        ["class", "precision", "recall", "f1", "examples"],
        [(each["label"], each["precision"], each["recall"], each["f1"], each["examples"]) for each in classes],
    )
    if len(classes) <= MOST_IN_A_MATRIX:
        console.print(f"\n{name}: a row for each true class, a column for what was said")
        labels = [each["label"] for each in classes]
        rows = zip(labels, found["confusion"], strict=True)
        print_table(["", *labels], [(label, *counts) for label, counts in rows])
    else:
        console.print(f"\n{name}: most often mixed up")
        print_table(["true", "said", "examples"], [tuple(each.values()) for each in found["mixed_up"]])


def print_rewards(name: str, found: dict[str, list[float]]) -> None:
    from headway.lab.chart import columns

    low, high = found["borders"][0], found["borders"][-1]
    console.print(f"\n{name}: rewards from {low:.2f} to {high:.2f}")
    print_table(
        ["answers", "how many have such a reward"], [(side, *columns(found[side], 1)) for side in ("better", "worse")]
    )


def print_calibration(name: str, bins: list[dict[str, Any]]) -> None:
    console.print(f"\n{name}: when it is so sure, how often is it right?")
    print_table(
        ["sure", "mean", "right", "examples"],
        [
            (f"{each['low']:.0%} to {each['high']:.0%}", each["confidence"], each["accuracy"], each["count"])
            for each in bins
        ],
    )


@click.command()
@run_argument
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=click.Path(path_type=Path), help="Texts from a file of any format that is read.")
@with_option
@click.option("--jsonl", is_flag=True, help="Print a JSON object a line, as the answers come.")
@json_option
def predict(
    run: Path, texts: tuple[str, ...], file: Path | None, words: tuple[str, ...], jsonl: bool, as_json: bool
) -> None:
    """Ask a trained RUN about each TEXT, about the texts of a file, or about each line of the standard input.

    \b
    Examples:
      headway predict runs/parity-1 0110100110010110
      headway predict runs/classify-1 --file new.csv --jsonl > answers.jsonl
      cat strings.txt | headway predict runs/parity-1 --json
    """
    from headway.runs.model import Model
    from headway.runs.run import Run

    if texts and file:
        raise Problem("give either texts or --file, not both")
    if jsonl and as_json:
        raise Problem("give either --json or --jsonl, not both")
    trained = Run(run)
    trained.read_as(words)
    model = Model(trained)
    for message in trained.notes:
        warn(message)
    asked: Iterable[str] = texts
    if file is not None:
        asked = trained.task.texts_in(file)
    elif not texts:
        asked = () if sys.stdin.isatty() else piped_lines()
    answers = iter(model.predict(texts)) if texts else model.predict_stream(asked)
    first = next(answers, None)
    if first is None:
        where = f"{file} is empty" if file else "there is no text"
        raise Problem(f"{where}: try headway predict {run} {shlex.quote(trained.task.example)}")
    answers = chain([first], answers)
    if jsonl:
        for answer in answers:
            click.echo(json.dumps(asdict(answer), ensure_ascii=False))
    elif as_json:
        print_json([asdict(answer) for answer in answers])
    else:
        print_table(["text", "label", "probability"], [(short(a.text), a.label, a.probability) for a in answers])
        next_step("headway", "evaluate", run)


def short(text: str, most: int = 100) -> str:
    """In one line of a table."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def piped_lines() -> Iterator[str]:
    from headway.data.examples import is_unicode

    try:
        for number, line in enumerate(sys.stdin, start=1):
            if not is_unicode(line):
                raise Problem(f"the standard input, line {number}, is not in UTF-8: convert it, for example with iconv")
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise Problem(f"the standard input is not {error.encoding}: {error.reason} at byte {error.start}") from None


VERBS = [evaluate, predict]
