"""compare, taming."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import AT_LEAST_1, settings_argument, study_folder_option, trust_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, prints
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.api.studies import Taming

seeds_option = click.option(
    "--seeds", default=3, show_default=True, type=AT_LEAST_1, help="Number of random seeds per variant."
)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="RECIPE... [SETTINGS]...")
@click.option("--vary", multiple=True, metavar="KEY=A,B,C", help="A setting and its variants; several multiply.")
@seeds_option
@click.option("--budget", metavar="KIND=AMOUNT", help="The same for all: epochs=3, steps=500, minutes=2 or flops=1e13.")
@click.option("--reach", type=float, help="Report how long each variant took to reach this validation score.")
@click.option("--baselines", is_flag=True, help="Add simple models, trained in seconds (see headway baseline).")
@study_folder_option
@trust_option
@prints
def compare(
    words: tuple[str, ...],
    vary: tuple[str, ...],
    seeds: int,
    budget: str | None,
    reach: float | None,
    baselines: bool,
    out: Path | None,
) -> Output:
    """Compare recipes, or variants of a recipe, over several seeds.

    The result is a table of means with 95 % confidence intervals, and a plot. With the same seed, all variants see the
    same data in the same order. For classifiers, the last columns are the difference in accuracy from the first row,
    with its 95 % confidence interval, and the p-value of an exact paired test (McNemar's). Language models are measured
    on the same tokens with the same context, which is named below the table.

    \b
    Examples:
      headway compare parity --vary model.norm=pre,post,rezero --seeds 3
      headway compare parity --vary 'model.feedforward=relu,sine(scale=16)' --vary data.uniform=0,0.5
      headway compare sentiment sentiment-rnn --seeds 3 --budget minutes=2 --reach 0.85
      headway compare sentiment sentiment-rnn data.validation=0.1 --seeds 1 --baselines
    """
    from headway.api.studies import compare as compare_recipes

    names, overrides = [word for word in words if "=" not in word], [word for word in words if "=" in word]
    if not names:
        raise Problem(
            "there is no recipe to compare: name one, such as headway compare parity --vary model.norm=pre,post"
        )
    study = compare_recipes(
        names,
        vary=vary,
        seeds=seeds,
        budget=budget,
        reach=reach,
        baselines=baselines,
        settings=overrides,
        out=out,
        progress=following(brief=True),
    )
    blocks: list[Block] = [
        *study.picture.line("curves"),
        study.table(),
        "one seed" if seeds == 1 else f"means over {seeds} seeds, with 95 % confidence intervals",
        *(
            ["difference from the first row, with its 95 % confidence interval, and p of an exact paired test"]
            if any(row.p is not None for row in study.rows)
            else []
        ),
        *(["the interval of a score is that over test items, not over seeds"] if study.has_baselines else []),
        *study.measured,
    ]
    more = ["tensorboard", "--logdir", study.folder]
    return Output({"folder": study.folder, "rows": study.rows}, blocks, more, study.picture.notes)


@click.command()
@settings_argument
@seeds_option
@study_folder_option
@prints
def taming(settings: tuple[str, ...], seeds: int, out: Path | None) -> Output:
    """What makes deep Transformers train?

    Compares norms, warm-up and optimizers on twelve layers, with equal budgets.

    SETTINGS override the recipe taming for all variants.

    \b
    Example:
      headway taming --seeds 3
    """
    from headway.api.studies import tame

    study = tame(seeds=seeds, settings=settings, out=out, progress=following(brief=True))
    folder = study.comparison.folder
    rows = [
        {**asdict(row), "failed": study.failed[row.variant], "gradients": study.gradients[row.variant]}
        for row in study.comparison.rows
    ]
    more = ["tensorboard", "--logdir", folder]
    notes = [*study.comparison.picture.notes, *study.picture.notes]
    return Output({"folder": folder, "rows": rows}, taming_report(study, seeds), more, notes)


def taming_report(study: "Taming", seeds: int) -> Iterator[Block]:
    from headway.api.studies import FAILED_BELOW

    yield Table(
        ["variant", "test accuracy", "failed", "gradient of the first layer", "of the last", "seconds"],
        [
            (
                row.variant,
                row.scores["test"]["accuracy"] if row.scores else None,
                f"{study.failed[row.variant]} of {seeds}",
                f"{study.gradients[row.variant][0]:.2e}",
                f"{study.gradients[row.variant][-1]:.2e}",
                None if row.seconds is None else f"{row.seconds.mean:.1f}",
            )
            for row in study.comparison.rows
        ],
    )
    yield f"failed: final validation accuracy below {FAILED_BELOW:.0%}; gradients: norms at the first step"
    yield from study.comparison.picture.line("curves")
    yield from study.picture.line("gradients by layer")
