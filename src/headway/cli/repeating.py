"""repeat."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.compare import seeds_option
from headway.cli.options import Numbers, settings_argument, study_folder_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, prints

if TYPE_CHECKING:
    from headway.api.continuing import Repeating


@click.command()
@click.argument("recipe")
@settings_argument
@click.option("--passes", default="1,2,4,8,16,32", show_default=True, type=Numbers(), help="Passes over the text.")
@seeds_option
@study_folder_option
@prints
def repeat(recipe: str, settings: tuple[str, ...], passes: tuple[int, ...], seeds: int, out: Path | None) -> Output:
    """How often may a text be repeated?

    Trains on the same number of tokens, over one pass of much text or many passes of less, and says where the score on
    held-out texts stops falling. All trainings have the same steps, tokenizer and held-out texts.

    \b
    Examples:
      headway repeat language data.train=novel.txt train.steps=1000
      headway repeat language data.train=texts.jsonl --passes 1,4,16 --seeds 5
    """
    from headway.api.continuing import repeat as repeat_text

    study = repeat_text(recipe, passes=passes, seeds=seeds, settings=settings, out=out, progress=following(brief=True))
    content = {"folder": study.folder, "budget": study.budget, "score": study.score, "rows": study.rows}
    more = ["tensorboard", "--logdir", study.folder]
    return Output(content, report(study, seeds), more, study.picture.notes)


def report(study: "Repeating", seeds: int) -> Iterator[Block]:
    yield study.table()
    over = f", means over {seeds} seeds with 95 % confidence intervals" if seeds > 1 else ""
    yield f"{study.budget:,} tokens in each training{over}"
    passes = study.stops_falling()
    yield (
        f"from {passes} passes on, the held-out {study.score} rises again before the end"
        if passes
        else f"the held-out {study.score} falls to the end with all of them"
    )
    yield from study.picture.line("picture")
