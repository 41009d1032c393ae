"""data."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from headway.cli.options import FILE, settings_argument
from headway.cli.progress import following
from headway.cli.render import Block, Chart, Output, prints

if TYPE_CHECKING:
    from headway.api.overview import LanguageSurvey, Survey


@click.command()
@click.argument("file", type=FILE)
@settings_argument
@click.option("--recipe", help="Recipe to read it for; default: classify, or language if there are no labels.")
@prints
def data(file: Path, settings: tuple[str, ...], recipe: str | None) -> Output:
    """Describe a FILE (or folder) of texts.

    With labels: rows, classes, lengths and duplicates. With languages (data.language, or those of a translation):
    texts, characters, bytes and scripts of each, and what looks like another language or script than its label.
    SETTINGS are those of the recipe, such as the columns to read or a file to test on.

    \b
    Examples:
      headway data reviews.csv
      headway data reviews.csv data.text=review data.label=stars data.test=later.csv data.max_length=200
      headway data texts.tsv data.language=lang
      headway data pairs.tsv data.columns=en,de,fr --recipe translate
    """
    from headway.api.overview import survey_data

    facts = survey_data(file, recipe=recipe, settings=settings, progress=following())
    more = ["headway", "train", facts["recipe"], f"data.train={file}", *settings]
    return Output({"file": str(file), **facts}, report(file, facts), more)


def report(file: Path, facts: "Survey") -> Iterator[Block]:
    if facts.has_labels:
        names = ", ".join(f"{use} {name!r}" for use, name in facts["columns"].items())
        yield f"{file}: {facts['rows']:,} rows; columns: {names}"
    else:
        yield f"{file}: {facts['rows']:,} texts"
    for message in facts["notes"]:
        yield note(message)
    if facts.has_labels:
        yield from class_report(facts)
        yield from length_report(facts)
        repeated = facts["duplicates"]
        several = repeated["texts_with_several_labels"]
        yield f"\n{repeated['rows']:,} rows repeat a text; {several:,} texts have different labels"
        yield facts.part_table()
    if "languages" in facts:
        yield from language_report(facts["languages"])


def note(message: str) -> Text:
    return Text.assemble(("note: ", "yellow"), message)


def language_report(survey: "LanguageSurvey") -> Iterator[Block]:
    if survey.is_told_apart:
        yield f"\n{len(survey.languages):,} languages; scripts by the share of texts in them"
    yield survey.table()
    for message in survey.notes():
        yield note(message)
    warnings = survey.warnings()
    for heading, table in warnings:
        yield Text.assemble("\n", (heading, "yellow"))
        yield table
    if not warnings:
        yield f"no text looks like another {'language or ' * survey.is_told_apart}script than the others"


def class_report(facts: "Survey") -> Iterator[Block]:
    yield f"\n{len(facts['classes']):,} classes"
    yield facts.class_table()
    if rest := facts.other_classes():
        yield rest


def length_report(facts: "Survey") -> Iterator[Block]:
    tokens, histogram = facts["tokens"], facts["histogram"]
    yield (
        f"\nlengths in tokens ({tokens['kind']}, vocabulary {tokens['different']:,}): {tokens['shortest']:,} to "
        f"{tokens['longest']:,}, median {tokens['median']:,.0f}, mean {tokens['mean']:,.0f}"
    )
    yield Chart(histogram["counts"], height=6, end=histogram["up_to"])
    yield facts.cut_off_table()
