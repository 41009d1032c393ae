"""check."""

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click
from rich.text import Text

from headway.cli.options import recipe_argument, settings_argument, trust_option
from headway.cli.render import Output, console, prints

if TYPE_CHECKING:
    from headway.api.overview import Finding


@click.command()
@recipe_argument
@settings_argument
@trust_option
@prints
def check(recipe: str, settings: tuple[str, ...]) -> Output:
    """Check a RECIPE before training it.

    Are there enough data, do all sequences fit the model, is the initial loss ln(classes), can it overfit one batch?

    \b
    Example:
      headway check substring model.position=learned data.longer=40
    """
    from headway.api.overview import check as check_recipe

    with console.status("checking") if console.is_terminal else nullcontext():
        findings = check_recipe(recipe, settings=settings, found=show)
    good = all(finding.good for finding in findings)
    more = ["headway", "train", recipe, *settings] if good else ["headway", "recipes", recipe]
    return Output({"good": good, "findings": findings}, next_command=more, exit_code=0 if good else 1)


def show(finding: "Finding") -> None:
    mark = ("good", "green") if finding.good else ("bad ", "red")
    console.print(Text.assemble(mark, f"  {finding.what}: {finding.detail}"))
