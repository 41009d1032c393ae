"""forgetting."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import AT_LEAST_1, FILE, Shares, run_argument, settings_argument, study_folder_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, prints

if TYPE_CHECKING:
    from headway.api.continuing import Forgetting


@click.command()
@run_argument
@settings_argument
@click.option("--data", "path", type=FILE, help="File of texts in old and new languages; default: data.train.")
@click.option("--replay", default="0,0.05,0.1,0.2", show_default=True, type=Shares(), help="Shares for old languages.")
@click.option("--seeds", default=1, show_default=True, type=AT_LEAST_1, help="Number of random seeds.")
@study_folder_option
@prints
def forgetting(
    run: Path, settings: tuple[str, ...], path: Path | None, replay: tuple[float, ...], seeds: int, out: Path | None
) -> Output:
    """What does a language model gain and forget with new languages?

    Continues a RUN on texts in old and new languages, with several shares of replay for the old ones, and trains a new
    model on as many tokens of the new ones. The table has the bits per byte of each language before and after. SETTINGS
    override the run's own recipe.

    \b
    Examples:
      headway forgetting runs/language-1 --data texts.jsonl train.steps=1000
      headway forgetting runs/language-1 --data texts.jsonl data.extend_vocabulary=2000 --replay 0,0.1,0.5
    """
    from headway.api.continuing import forgetting as measure

    study = measure(run, path, replay=replay, seeds=seeds, settings=settings, out=out, progress=following(brief=True))
    content = {"folder": study.folder, "budget": study.budget, "rows": study.rows, "gains": study.gains}
    more = ["tensorboard", "--logdir", study.folder]
    return Output(content, report(study, seeds), more, study.notes)


def report(study: "Forgetting", seeds: int) -> Iterator[Block]:
    over = f", means over {seeds} seeds with 95 % confidence intervals" if seeds > 1 else ""
    yield f"bits per byte of held-out texts, before and after {study.budget:,} tokens (and the change){over}"
    yield study.table()
    yield "\nthe change by share of replay, and the tokens that training from scratch would take"
    yield study.gain_table()
    yield from study.picture.line("\npicture")
