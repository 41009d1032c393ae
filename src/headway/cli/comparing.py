"""The verbs that compare: compare, taming."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.output import console, draw, json_option, next_step, print_json, print_table
from headway.cli.progress import follow_steps
from headway.cli.studies import free_folder, out_option, settings_argument, stop
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.lab.compare import Entrant, Row


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="RECIPE... [SETTINGS]...")
@click.option("--vary", multiple=True, metavar="KEY=A,B,C", help="A setting and what to try; several multiply.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="How often to train each variant.")
@click.option("--budget", metavar="KIND=AMOUNT", help="The same for all: epochs=3, steps=500, minutes=2 or flops=1e13.")
@click.option("--reach", type=float, help="Say how long each took to reach this score on the validation data.")
@out_option
@json_option
def compare(
    words: tuple[str, ...],
    vary: tuple[str, ...],
    seeds: int,
    budget: str | None,
    reach: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Train recipes, or variants of one, with several seeds: a table of means with 95 % intervals, and a picture.

    With the same seed, all see the same data, and variants in the same order. The last column of the table is the
    p-value of a paired test: how likely it is that answers differ this much from those of the first row by chance.

    \b
    Examples:
      headway compare parity --vary model.norm=pre,post,rezero --seeds 3
      headway compare parity --vary 'model.feedforward=relu,sine(scale=16)' --vary data.uniform=0,0.5
      headway compare sentiment sentiment-rnn --seeds 3 --budget minutes=2 --reach 0.85
    """
    from headway.lab.compare import entrants, entries, within_budget
    from headway.lab.variants import variants

    names, settings = [word for word in words if "=" not in word], [word for word in words if "=" in word]
    if not names:
        raise Problem(
            "there is no recipe to compare: name one, such as headway compare parity --vary model.norm=pre,post"
        )
    folder = out or free_folder("compare-" + "-".join(Path(name).stem for name in names))
    entered = entrants(within_budget(entries(names, settings, variants(vary)), budget, folder), seeds, folder)
    rows = train_all(entered, folder, reach, quiet=as_json)
    if as_json:
        print_json({"folder": str(folder), "rows": [asdict(row) for row in rows]})
        return
    print_comparison(rows, reach)
    console.print("one seed" if seeds == 1 else f"means over {seeds} seeds, with 95 % intervals")
    next_step("tensorboard", "--logdir", folder)


def train_all(entered: "list[Entrant]", folder: Path, reach: float | None, quiet: bool) -> "list[Row]":
    """Train them one after another; a table of numbers and a picture of the curves stay in the folder."""
    from headway.data.storage import write_whole
    from headway.lab.compare import summarise
    from headway.lab.plot import save_curves

    for place, entrant in enumerate(entered, start=1):
        outcome = train_entrant(entrant, folder)
        if not quiet:
            console.print(f"{place}/{len(entered)}  {entrant.folder.name}: {outcome}")
    rows = summarise(entered, reach)
    write_whole(folder / "comparison.json", json.dumps([asdict(row) for row in rows], indent=2))
    picture = folder / "comparison.png"
    curves = {row.variant: row.curves for row in rows if row.curves}
    if draw(lambda: save_curves(picture, curves, "step", f"validation {rows[0].watched}")) and not quiet:
        console.print(f"curves: {picture}")
    return rows


@click.command()
@settings_argument
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="How often to train each.")
@out_option
@json_option
def taming(settings: tuple[str, ...], seeds: int, out: Path | None, as_json: bool) -> None:
    """What makes deep Transformers train? Norms, warm-up and optimizers on twelve layers, with the same budget.

    SETTINGS change the recipe taming for all of them.

    \b
    Example:
      headway taming --seeds 3
    """
    from headway.lab.compare import entrants
    from headway.lab.plot import save_curves
    from headway.lab.taming import FAILED_BELOW, first_gradients, tamed

    folder = out or free_folder("taming")
    entered = tamed(settings)
    gradients = {name: first_gradients(entry) for name, entry in entered.items()}
    rows = train_all(entrants(entered, seeds, folder), folder, None, quiet=as_json)
    failed = {row.variant: row.diverged + sum(end[-1][1] < FAILED_BELOW for end in row.curves) for row in rows}
    if as_json:
        found = [{**asdict(row), "failed": failed[row.variant], "gradients": gradients[row.variant]} for row in rows]
        print_json({"folder": str(folder), "rows": found})
        return
    print_table(
        ["variant", "test accuracy", "failed", "gradient of the first layer", "of the last", "seconds"],
        [
            (
                row.variant,
                row.scores["test"]["accuracy"] if row.scores else None,
                f"{failed[row.variant]} of {seeds}",
                f"{gradients[row.variant][0]:.2e}",
                f"{gradients[row.variant][-1]:.2e}",
                None if row.seconds is None else f"{row.seconds.mean:.1f}",
            )
            for row in rows
        ],
    )
    console.print(f"failed: below {FAILED_BELOW:.0%} on the validation data at the end; gradients: at the first step")
    picture = folder / "gradients.png"
    curves = {name: [list(enumerate(norms, start=1))] for name, norms in gradients.items()}
    if draw(lambda: save_curves(picture, curves, "layer", "gradient at the first step", logarithmic=True)):
        console.print(f"gradients by layer: {picture}")
    next_step("tensorboard", "--logdir", folder)


def train_entrant(entrant: "Entrant", folder: Path) -> str:
    """Train it to its end, and say what it came to."""
    from headway.training.finite import NotFinite

    session = entrant.fit()
    try:
        follow_steps(session, lines=False)
    except NotFinite as problem:
        return f"diverged at step {problem.step:,}"
    if session.interrupted is not None:
        stop(folder, session.interrupted)
    return entrant.in_short()


def print_comparison(rows: "list[Row]", reach: float | None) -> None:
    score = rows[0].score
    sets = list(dict.fromkeys(name for row in rows for name in row.scores))
    print_table(
        [
            "variant",
            *(f"{name} {score}" for name in sets),
            "parameters",
            "seconds",
            *([f"seconds to {reach:g}"] if reach is not None else []),
            "p",
        ],
        [
            (
                f"{row.variant} ({row.diverged} diverged)" if row.diverged else row.variant,
                *(row.scores[name][score] if name in row.scores else None for name in sets),
                row.parameters,
                None if row.seconds is None else f"{row.seconds.mean:.1f}",
                *([time_to(row.reached, len(row.curves))] if reach is not None else []),
                "" if row.p is None else f"{row.p:.2g}" if row.p > 1e-15 else "< 1e-15",
            )
            for row in rows
        ],
    )


def time_to(seconds: list[float], runs: int) -> str:
    if not seconds:
        return "never"
    mean = f"{sum(seconds) / len(seconds):.1f}"
    return mean if len(seconds) == runs else f"{mean} ({len(seconds)} of {runs} runs)"


VERBS = [compare, taming]
