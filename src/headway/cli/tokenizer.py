"""tokenizer and its subcommands."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.options import AT_LEAST_1, FILE, OutFile
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, prints
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.api.tokenizers import TokenizerReport

data_option = click.option(
    "--data", "files", multiple=True, required=True, type=FILE, help="File with texts and their languages; repeatable."
)
language_option = click.option(
    "--language", default="language", show_default=True, help="Column with the language of each text, or files."
)
text_option = click.option("--text", help="Column with the texts; default: detect it.")
picture_option = click.option("--picture", type=OutFile(), help="Draw the languages into this file.")


def parallel_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        [
            data_option,
            language_option,
            text_option,
            click.option("--same", help="Column that says which sentence a text is, in all languages; or line."),
            click.option("--translation", help="Column with the translation of each text into one language."),
            click.option("--against", help="Language to compare with; default: English."),
            picture_option,
        ]
    ):
        verb = option(verb)
    return verb


@click.group()
def tokenizer() -> None:
    """Train a tokenizer on texts in many languages, and see how well it serves each of them.

    A TOKENIZER is a tokenizer.json, a run, a folder of a transformers model, or a folder with one for each group of
    languages.

    \b
    Examples:
      headway tokenizer train texts.jsonl --language language --mixture 'temperature(alpha=0.3)' --out mixed.json
      headway tokenizer report mixed.json --data sentences.tsv --language lang --translation eng
      headway tokenizer compare raw.json mixed.json --data sentences.tsv --language lang --translation eng
      headway train language data.train=texts.jsonl data.tokenizer=mixed.json
    """


@tokenizer.command("train")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--kind", default="bpe", show_default=True, help="A kind that data.tokenizer knows.")
@click.option("--vocab-size", default=8_000, show_default=True, type=AT_LEAST_1, help="Maximum number of tokens.")
@click.option("--language", help="Column with the language of each text, or files; default: they are not told apart.")
@text_option
@click.option("--mixture", default="proportional", show_default=True, help="Shares of the languages.")
@click.option(
    "--groups",
    multiple=True,
    metavar="script|NAME=A,B",
    help="One tokenizer for each group: by script, or languages by name; repeatable.",
)
@click.option("--normalize", default="", help="Normalization steps applied to each text.")
@click.option("--min-count", default=1, show_default=True, type=AT_LEAST_1, help="Minimum count of a token.")
@click.option("--out", required=True, type=FILE, help="File to write; with --groups a folder.")
@prints
def train_tokenizer(files: tuple[Path, ...], groups: tuple[str, ...], out: Path, **options: Any) -> Output:
    """Train a tokenizer on texts, which a mixture of their languages draws.

    \b
    Examples:
      headway tokenizer train novels.txt --out tokenizer.json
      headway tokenizer train texts.jsonl --language language --mixture uniform --kind unigram --out mixed.json
      headway tokenizer train texts.jsonl --language language --groups script --out tokenizers
      headway tokenizer train texts.jsonl --language language --groups Romance=fra,spa --out tokenizers
    """
    from headway.api.tokenizers import train_tokenizer as train

    made = train(files, groups=groups_in(groups), out=out, progress=following(brief=True), **options)
    members = {group: [name for name, own in made.groups.items() if own == group] for group in made.tokenizers}
    rows = [(group or out.name, len(own), len(members[group])) for group, own in made.tokenizers.items()]
    columns = ["group" if made.groups else "tokenizer", "vocabulary", "languages"]
    table = Table(columns, rows) if made.groups else Table(columns[:2], [row[:2] for row in rows])
    data = {"out": out, "vocabulary": len(made), "groups": members if made.groups else {}}
    told_apart = ["--language", options["language"]] if options["language"] else []
    return Output(data, [table], ["headway", "tokenizer", "report", out, "--data", files[0], *told_apart])


def groups_in(texts: tuple[str, ...]) -> str | dict[str, list[str]] | None:
    """``script``, or ``NAME=A,B``."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    groups: dict[str, list[str]] = {}
    for text in texts:
        group, equals, names = text.partition("=")
        if not equals or not group or not names:
            raise Problem(f"--groups: {text!r} is neither script nor of the form NAME=A,B")
        groups.setdefault(group, []).extend(name.strip() for name in names.split(","))
    return groups


@tokenizer.command("report")
@click.argument("source", type=FILE, metavar="TOKENIZER")
@parallel_options
@prints
def report_tokenizer(source: Path, files: tuple[Path, ...], picture: Path | None, **options: Any) -> Output:
    """How well a TOKENIZER serves each language.

    Fertility is tokens per word; in scripts without spaces, each letter with its marks is taken for a word. Byte tokens
    are no whole characters. Parity is the number of tokens of sentences, by that of the same sentences in English.

    \b
    Examples:
      headway tokenizer report tokenizer.json --data texts.jsonl
      headway tokenizer report runs/language-1 --data sentences.tsv --language lang --translation eng --picture fair.png
      headway tokenizer report models/xlm-r --data en.txt --data de.txt --language files --same line
    """
    from headway.api.tokenizers import report_tokenizer as report

    made = report(source, files, progress=following(brief=True), **options)
    if picture is not None:
        made.plot().save(picture)
    blocks: list[Block] = [made.table(), "\nmeans by script", made.script_table(), *line_of(picture)]
    return Output(as_data(made), blocks)


def as_data(report: "TokenizerReport") -> dict[str, Any]:
    return asdict(report) | {"scripts": report.scripts}


def line_of(picture: Path | None) -> list[str]:
    return [f"\npicture: {picture}"] if picture else []


@tokenizer.command("compare")
@click.argument("sources", nargs=-1, required=True, type=FILE, metavar="TOKENIZER...")
@parallel_options
@prints
def compare_tokenizers(
    sources: tuple[Path, ...], files: tuple[Path, ...], picture: Path | None, **options: Any
) -> Output:
    """Several TOKENIZERs on the same texts, side by side.

    \b
    Examples:
      headway tokenizer compare raw.json mixed.json --data sentences.tsv --language lang --translation eng
      headway tokenizer compare one.json tokenizers --data texts.jsonl --picture tokenizers.png
    """
    from headway.api.tokenizers import compare_tokenizers as compare

    made = compare(sources, files, progress=following(brief=True), **options)
    if picture is not None:
        made.plot().save(picture)
    what = f"\n{made.measure} "
    blocks: list[Block] = [
        made.table(),
        f"{what}by script",
        made.script_table(),
        f"{what}by language",
        made.language_table(),
        *line_of(picture),
    ]
    return Output([as_data(each) for each in made.reports], blocks)
