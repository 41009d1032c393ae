"""The verbs that study: check, compare, search."""

import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from headway.cli.output import console, json_option, next_step, print_json, print_table


@click.command()
@click.argument("recipe")
@click.argument("settings", nargs=-1)
@json_option
def check(recipe: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Check a RECIPE before spending an hour: data, sizes, lengths, the first loss, and whether one batch can be learned.

    \b
    Example:
      headway check parity model.position=learned
    """
    from headway import recipes
    from headway.lab.check import check as find

    findings = []
    for finding in find(recipes.load(recipe, settings)):
        findings.append(finding)
        if not as_json:
            mark = ("good", "green") if finding.good else ("bad ", "red")
            console.print(Text.assemble(mark, f"  {finding.what}: {finding.detail}"))
    good = all(finding.good for finding in findings)
    if as_json:
        print_json({"good": good, "findings": [asdict(finding) for finding in findings]})
    else:
        next_step(" ".join(["headway", "train" if good else "recipes", recipe, *(settings if good else ())]))
    sys.exit(0 if good else 1)


VERBS = [check]
