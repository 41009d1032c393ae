"""The verbs that read: evaluate, predict, show, recipes, runs, schedule."""

import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import click

from headway.cli.output import console, json_option, next_step, print_json, print_table, warn
from headway.cli.progress import bars
from headway.cli.training import print_sets
from headway.errors import Problem

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
@click.option("--data", type=click.Path(path_type=Path), help="A file of labelled texts to measure on instead.")
@with_option
@json_option
def evaluate(run: Path, data: Path | None, words: tuple[str, ...], as_json: bool) -> None:
    """Measure a trained RUN on all its test sets: accuracy, F1, which classes are mixed up, how far to trust it.

    \b
    Examples:
      headway evaluate runs/parity-1 --json
      headway evaluate runs/classify-1 --data more.csv
    """
    from headway.lab.report import report
    from headway.run import Run

    trained = Run(run)
    trained.read_as(words)
    with bars() as shown:
        step, found = trained.result().step, report(trained, data, shown)
    for message in trained.notes:
        warn(message)
    if as_json:
        print_json({"run": str(run), "weights_of_step": step, "test": found, "notes": trained.notes})
        return
    console.print(f"{run}, weights of step {step:,}")
    shown_metrics = (*trained.task.scores, "f1", "calibration_error", "examples")
    print_sets({name: {metric: each[metric] for metric in shown_metrics} for name, each in found.items()})
    for name, each in found.items():
        print_details(name, each)
    next_step("headway", "predict", run, trained.task.example)


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
    console.print(f"\n{name}: when it is so sure, how often is it right?")
    print_table(
        ["sure", "mean", "right", "examples"],
        [
            (f"{each['low']:.0%} to {each['high']:.0%}", each["confidence"], each["accuracy"], each["count"])
            for each in found["calibration"]
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
    from headway.run import Model, Run

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
    answers = iter(model.predict(texts)) if texts else model.stream(asked)
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


@click.command()
@click.argument("name", metavar="[RECIPE]", required=False)
@json_option
def recipes(name: str | None, as_json: bool) -> None:
    """List the built-in recipes; or all settings of one RECIPE, each with its meaning.

    \b
    Examples:
      headway recipes
      headway recipes parity
    """
    from headway import recipes
    from headway.settings import rows

    if name is None:
        found = [recipes.load(each) for each in recipes.names()]
        if as_json:
            print_json([{"name": each.name, "task": each.task, "about": each.about} for each in found])
            return
        print_table(["recipe", "task", "about"], [(each.name, each.task, each.about) for each in found])
        next_step("headway", "train", "parity")
        return
    recipe = recipes.load(name)
    settings = [
        {
            "key": row.key,
            "value": row.value,
            "about": row.about,
            "choices": row.choices or list(recipes.TABLES.get(row.key, ())),
        }
        for row in rows(recipe)
    ]
    if as_json:
        print_json(settings)
        return
    console.print(f"{name}: {recipe.about}")
    print_table(
        ["key", "value", "meaning", "choices"],
        [
            (row["key"], "none" if row["value"] is None else str(row["value"]), row["about"], ", ".join(row["choices"]))
            for row in settings
            if "." in row["key"]
        ],
    )
    next_step("headway", "train", name, "model.width=64")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@json_option
def runs(folder: Path, as_json: bool) -> None:
    """List the runs in a FOLDER (runs, if left out) and below it.

    \b
    Example:
      headway runs
    """
    from headway.run import all_runs

    found = [run.summary() for run in all_runs(folder)]
    if as_json:
        print_json(found)
        return
    if not found:
        console.print(f"no runs in {folder}")
        next_step("headway", "train", "parity")
        return
    columns = list(dict.fromkeys(name for run in found for name in run))
    print_table(columns, [[run.get(name) for name in columns] for run in found])
    verb = "evaluate" if found[-1]["state"] == "done" else "resume"
    next_step("headway", verb, found[-1]["run"])


@click.command()
@click.argument("name", metavar="RECIPE|RUN")
@click.argument("settings", nargs=-1)
@json_option
def show(name: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Show the layers of a RECIPE or a RUN: the shape that comes out of each, its parameters, the cost of a step.

    \b
    Examples:
      headway show parity
      headway show substring model.feedforward=swiglu
      headway show runs/parity-1
    """
    from headway import recipes
    from headway.lab.describe import layers, step_flops
    from headway.run import Run
    from headway.session import order_of
    from headway.tasks import TASKS

    is_run = name not in recipes.names() and Path(name).is_dir()
    if is_run and settings:
        raise Problem(f"{name} is a run, and its settings are fixed: leave out {' '.join(settings)}")
    recipe = Run(name).recipe if is_run else recipes.load(name, settings)
    task = Run(name).task if is_run else TASKS[recipe.task](recipe)
    if not is_run:
        task.prepare()
    train = task.splits().train
    model, batch = task.model(), train.batch(order_of(recipe.train, train).rows_at(1))
    rows, flops = layers(task, model, batch), step_flops(task, model, batch)
    parameters = sum(weight.numel() for weight in model.parameters())
    if as_json:
        print_json({"layers": [asdict(row) for row in rows], "parameters": parameters, "flops_of_a_step": flops})
        return
    print_table(
        ["layer", "kind", "output", "parameters"],
        [(row.name, row.kind, " x ".join(map(str, row.output)), row.parameters) for row in rows],
    )
    console.print(f"{parameters:,} parameters; a training step of {len(batch)} examples is {flops / 1e6:,.1f} MFLOP")
    next_step("headway", "evaluate" if is_run else "check", name, *settings)


@click.command()
@click.argument("recipe")
@click.argument("settings", nargs=-1)
@json_option
def schedule(recipe: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Draw the learning rate of a RECIPE over its steps.

    \b
    Example:
      headway schedule substring train.schedule=cosine train.warmup=300
    """
    from headway import recipes
    from headway.lab.chart import columns
    from headway.parts import bind
    from headway.session import order_of, with_steps
    from headway.tasks import TASKS
    from headway.train.schedule import SCHEDULES

    loaded = recipes.load(recipe, settings)
    spec = loaded.train
    if spec.epochs is not None:  # how many steps they are, the data tell
        task = TASKS[loaded.task](loaded)
        with bars() as shown:
            task.prepare(shown)
            spec = with_steps(spec, order_of(spec, task.splits(shown).train))
    factor = bind(SCHEDULES, spec.schedule, "train.schedule", warmup=spec.warmup, steps=spec.steps)
    width = min(60, spec.steps + 1)
    steps = [round(place * spec.steps / (width - 1)) for place in range(width)]
    rates = [spec.learning_rate * factor(step) for step in steps]
    if as_json:
        print_json([{"step": step, "learning_rate": rate} for step, rate in zip(steps, rates, strict=True)])
        return
    peak = spec.learning_rate * max(factor(step) for step in range(spec.steps + 1))
    console.print(f"{spec.schedule}: peak {peak:.2e}, warm-up {spec.warmup:,} of {spec.steps:,} steps")
    for line in columns(rates):
        console.print(f"│{line}")
    console.print(f"└{'─' * width}")
    console.print(f" 0{spec.steps:>{width - 1},}")
    next_step("headway", "train", recipe, *settings)


VERBS = [evaluate, predict, show, recipes, runs, schedule]
