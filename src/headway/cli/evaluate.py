"""evaluate."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.baseline import beside, blocks_beside, values_beside
from headway.cli.options import FILE, OutFile, reading_option, run_argument
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, columns, metric_blocks, prints, short

if TYPE_CHECKING:
    from headway.api.run import Evaluations

MOST_CLASSES, MOST_IN_A_MATRIX = 30, 12


@click.command()
@run_argument
@click.option("--data", type=FILE, help="Evaluate on this file instead of the test sets.")
@click.option("--int8", is_flag=True, help="Evaluate with int8 weights.")
@click.option("--picture", type=OutFile(), help="Plot confusions, rewards or scores by direction.")
@reading_option
@prints
def evaluate(run: Path, data: Path | None, int8: bool, picture: Path | None, overrides: tuple[str, ...]) -> Output:
    """Evaluate a trained RUN on all its test sets.

    Accuracy, F1, confusion matrix and calibration of a classifier; F1 of spans and the worst sentences of a tagger;
    perplexity and bits per byte of a language model;
    ranking accuracy and reward distribution of a reward model; BLEU by direction of a translator among many languages.

    \b
    Examples:
      headway evaluate runs/parity-1 --json
      headway evaluate runs/classify-1 --data more.csv --picture confusions.png
      headway evaluate runs/reward-1 --picture rewards.png
      headway evaluate runs/translate-1 --picture directions.png
    """
    from headway.api.model import load

    model = load(run)
    evaluations = model.evaluate(data, settings=overrides, int8=int8, progress=following())
    if picture is not None:
        evaluations.plot().save(picture)
    step = model.run.final_checkpoint().step
    sets = {name: each.metrics | each.details for name, each in evaluations.items()}
    shown = None if int8 else beside(model.run, data)
    values = {"run": str(run), "weights_of_step": step, "test": sets, "notes": model.run.notes}
    blocks = chain(report(run, step, sets), direction_report(evaluations), pictured(picture))
    if shown is not None:
        values, blocks = values | values_beside(shown), chain(blocks, blocks_beside(shown))
    return Output(values, blocks, model.run.next_command, model.run.notes)


def report(run: Path, step: int, sets: dict[str, dict[str, Any]]) -> Iterator[Block]:
    yield f"{run}, weights of step {step:,}"
    yield from metric_blocks(
        {
            name: {metric: value for metric, value in each.items() if isinstance(value, int | float)}
            for name, each in sets.items()
        }
    )
    for name, each in sets.items():
        if "classes" in each:
            yield from class_report(name, each)
        if "spans" in each:
            yield f"\n{name}: spans by type"
            yield Table(list(each["spans"][0]), [tuple(row.values()) for row in each["spans"]])
        if each.get("worst"):
            yield f"\n{name}: the worst sentences"
            yield Table(
                ["loss", "wrong", "words", "sentence"],
                [(row["loss"], row["wrong"], row["words"], short(row["sentence"], 200)) for row in each["worst"]],
            )
        if "languages" in each:
            yield from language_report(name, each["languages"], each["language_means"])
        if "rewards" in each:
            yield from reward_report(name, each["rewards"])
        if "calibration" in each:
            yield f"\n{name}: calibration (how often is it right when it is this sure?)"
            yield Table(
                ["confidence", "mean", "accuracy", "examples"],
                [
                    (f"{bin['low']:.0%} to {bin['high']:.0%}", bin["confidence"], bin["accuracy"], bin["count"])
                    for bin in each["calibration"]
                ],
            )


def class_report(name: str, details: dict[str, Any]) -> Iterator[Block]:
    classes = details["classes"]
    keys = ("label", "precision", "recall", "f1", "examples")
    if len(classes) <= MOST_CLASSES:
        shown, which = classes, ""
    else:
        shown = sorted((each for each in classes if each["examples"]), key=lambda each: each["f1"])[:MOST_CLASSES]
        which = f", the {len(shown)} of {len(classes):,} with the lowest F1 (all: --json)"
    yield f"\n{name}: classes{which}"
    yield Table(["class", *keys[1:]], [[each[key] for key in keys] for each in shown])
    if len(classes) <= MOST_IN_A_MATRIX:
        labels = [each["label"] for each in classes]
        rows = zip(labels, details["confusion"], strict=True)
        yield f"\n{name}: confusion matrix (rows: true class, columns: predicted class)"
        yield Table(["", *labels], [(label, *counts) for label, counts in rows])
    else:
        yield f"\n{name}: most often mixed up"
        yield Table(["true", "predicted", "examples"], [tuple(each.values()) for each in details["mixed_up"]])


def language_report(name: str, languages: dict[str, Any], means: dict[str, Any]) -> Iterator[Block]:
    columns = list(dict.fromkeys(column for row in languages.values() for column in row))
    yield f"\n{name}: languages, from most to least training text"
    yield Table(["language", *columns], [(each, *map(row.get, columns)) for each, row in (languages | means).items()])


def direction_report(evaluations: "Evaluations") -> Iterator[Block]:
    for matrix in evaluations.directions():
        yield from (f"\n{matrix.about}", matrix.table(), "", matrix.mean_table())


def reward_report(name: str, rewards: dict[str, list[float]]) -> Iterator[Block]:
    low, high = rewards["borders"][0], rewards["borders"][-1]
    yield f"\n{name}: distribution of rewards from {low:.2f} to {high:.2f}"
    yield Table(["answers", "histogram"], [(side, *columns(rewards[side], 1)) for side in ("better", "worse")])


def pictured(path: Path | None) -> Iterator[Block]:
    if path is not None:
        yield f"\npicture: {path}"
