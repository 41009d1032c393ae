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
    from headway.lab.suspects import Suspects


@click.command()
@click.argument("file", type=FILE)
@settings_argument
@click.option("--quick", is_flag=True, help="Only count: no search for wrong labels and near-duplicates.")
@click.option("--recipe", help="Recipe to read it for; default: classify, or language if there are no labels.")
@prints
def data(file: Path, settings: tuple[str, ...], quick: bool, recipe: str | None) -> Output:
    """Describe a FILE (or folder) of texts.

    With labels: rows, classes, lengths and duplicates; labels that are probably wrong, held-out texts that are almost
    in the training data, and what a simple model reaches (see headway baseline). With languages (data.language, or
    those of a translation): texts, characters, bytes and scripts of each, and what looks like another language or
    script than its label.
    SETTINGS are those of the recipe, such as the columns to read or a file to test on.

    \b
    Examples:
      headway data reviews.csv
      headway data reviews.csv data.text=review data.label=stars data.test=later.csv data.max_length=200
      headway data texts.tsv data.language=lang
      headway data pairs.tsv data.columns=en,de,fr --recipe translate
    """
    from headway.api.overview import survey_data

    facts = survey_data(file, recipe=recipe, settings=settings, quick=quick, progress=following())
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
    if "suspects" in facts:
        yield from suspect_report(facts["suspects"])
    if "languages" in facts:
        yield from language_report(facts["languages"])


def suspect_report(suspects: "Suspects") -> Iterator[Block]:
    """What is worth a look before anything is trained."""
    if suspects.near_duplicates:
        count = f"{len(suspects.near_duplicates):,} held-out texts are almost in the training data; the most similar"
        yield Text.assemble("\n", (count, "yellow"))
        yield suspects.duplicate_table()
    if suspects.label_errors:
        count = f"{len(suspects.label_errors):,} of {suspects.checked_rows:,} labels are doubtful; the most doubtful"
        yield Text.assemble("\n", (count, "yellow"))
        yield suspects.error_table()
    reach = suspects.reach
    yield (
        f"\na simple model ({reach.baseline}) labels {reach.accuracy:.1%} of the test data right, and always the most "
        f"frequent label {reach.most_frequent:.1%}: what is above it, a network has to earn"
    )


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
