"""mixture."""

from pathlib import Path

import click

from headway.cli.options import FILE, OutFile
from headway.cli.progress import following
from headway.cli.render import Block, Output, prints


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option(
    "--tokens", type=float, help="How much training reads in all, in the unit of the sizes; default: their sum."
)
@click.option("--mixture", "mixtures", multiple=True, metavar="RULE", help="A rule to show; repeatable.")
@click.option(
    "--language", default="language", show_default=True, help="Column with the language of each text, or files."
)
@click.option("--text", help="Column with the texts; default: detect it.")
@click.option("--picture", type=OutFile(), help="Plot shares and epochs into this file.")
@prints
def mixture(
    files: tuple[Path, ...],
    tokens: float | None,
    mixtures: tuple[str, ...],
    language: str,
    text: str | None,
    picture: Path | None,
) -> Output:
    """Plan a mixture of languages: shares and epochs, without training.

    FILE is a file of texts with their languages, whose sizes are counted in bytes; or a TOML file with sizes written by
    hand, in any unit: lines such as en = 1e9, or small = {languages = 490, size = 3e4} for many of one size.

    \b
    Examples:
      headway mixture texts.tsv --language lang
      headway mixture sizes.toml --tokens 1e12 --picture plan.png
      headway mixture sizes.toml --mixture proportional --mixture 'unimax(epochs=8)' --mixture en=0.6,sw=0.4
    """
    from headway.api.studies import plan_mixture

    plan = plan_mixture(
        files, tokens=tokens, mixtures=mixtures, language=language, text=text, progress=following(brief=True)
    )
    if picture is not None:
        plan.plot().save(picture)
    blocks: list[Block] = [
        "share of training" + (", of all languages of a row together" if plan.has_groups else ""),
        plan.share_table(),
        f"\nepochs: how often its text is read, in a training of {plan.budget:,.4g}",
        plan.epoch_table(),
        *([f"\npicture: {picture}"] if picture else []),
    ]
    return Output({"budget": plan.budget, "groups": plan.groups, "shares": plan.shares, "epochs": plan.epochs}, blocks)
