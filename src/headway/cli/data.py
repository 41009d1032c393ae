"""data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from headway.cli.options import FILE, settings_argument
from headway.cli.progress import following
from headway.cli.render import Block, Chart, Output, Table, prints

MOST_CLASSES = 20  # that are listed


@click.command()
@click.argument("file", type=FILE)
@settings_argument
@prints
def data(file: Path, settings: tuple[str, ...]) -> Output:
    """Describe a FILE (or folder) of labelled texts.

    Rows, classes, lengths and duplicates. SETTINGS are those of the recipe classify, such as the columns to read or a
    file to test on.

    \b
    Examples:
      headway data reviews.csv
      headway data reviews.csv data.text=review data.label=stars data.test=later.csv data.max_length=200
    """
    from headway.api.overview import survey_data

    facts = survey_data(file, settings=settings, progress=following())
    more = ["headway", "train", "classify", f"data.train={file}", *settings]
    return Output({"file": str(file), **facts}, report(file, facts), more)


def report(file: Path, facts: dict[str, Any]) -> Iterator[Block]:
    names = ", ".join(f"{use} {name!r}" for use, name in facts["columns"].items())
    yield f"{file}: {facts['rows']:,} rows; columns: {names}"
    for message in facts["notes"]:
        yield Text.assemble(("note: ", "yellow"), message)
    yield from class_report(facts["classes"], facts["rows"])
    yield from length_report(facts)
    repeated = facts["duplicates"]
    several = repeated["texts_with_several_labels"]
    yield f"\n{repeated['rows']:,} rows repeat a text; {several:,} texts have different labels"
    yield Table(
        ["part", "rows", "unknown tokens"],
        [(name, rows, f"{facts['unknown'][name]:.2%}") for name, rows in facts["parts"].items()],
    )


def class_report(classes: dict[str, int], rows: int) -> Iterator[Block]:
    most = max(classes.values())
    ranked = sorted(classes.items(), key=lambda pair: -pair[1])
    yield f"\n{len(classes):,} classes"
    yield Table(
        ["class", "rows", "share", ""],
        [
            (label, count, f"{count / rows:.1%}", "█" * round(30 * count / most))
            for label, count in ranked[:MOST_CLASSES]
        ],
    )
    if len(ranked) > MOST_CLASSES:
        rest = ranked[MOST_CLASSES:]
        yield f"and {len(rest):,} more, of {rest[-1][1]:,} to {rest[0][1]:,} rows"


def length_report(facts: dict[str, Any]) -> Iterator[Block]:
    tokens, histogram = facts["tokens"], facts["histogram"]
    yield (
        f"\nlengths in tokens ({tokens['kind']}, vocabulary {tokens['different']:,}): {tokens['shortest']:,} to "
        f"{tokens['longest']:,}, median {tokens['median']:,.0f}, mean {tokens['mean']:,.0f}"
    )
    yield Chart(histogram["counts"], height=6, end=histogram["up_to"])
    yield Table(
        ["maximum length", "texts truncated", "tokens lost"],
        [(limit, f"{cut['texts']:.1%}", f"{cut['tokens']:.1%}") for limit, cut in facts["cut_off"].items()],
    )
