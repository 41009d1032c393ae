"""The verbs that train: train, resume."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from headway.cli.output import console, duration, next_step, note, print_table, usage
from headway.cli.progress import bars, follow_steps

if TYPE_CHECKING:
    from headway.runs.fit import Fit
    from headway.runs.pipeline import RunFolders


@click.command()
@click.argument("recipe")
@click.argument("settings", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; runs/RECIPE-1 and so on if left out.")
def train(recipe: str, settings: tuple[str, ...], out: Path | None) -> None:
    """Train a RECIPE: a built-in name or a TOML file, with settings changed by key=value.

    \b
    Examples:
      headway train parity
      headway train parity train.seed=7 model.layers=1 --out runs/small
      headway train my.toml train.steps=600 train.checkpoint_every=20
      headway train classify start=runs/pretrain-1 data.train=reviews.csv
      headway train sentiment-pretrained start.train.steps=3000
    """
    train_recipe(recipe, settings, out)


def train_recipe(recipe: str, settings: Sequence[str], out: Path | None) -> None:
    from headway.runs.pipeline import RunFolders

    fit = train_stages(recipe, settings, RunFolders(out))
    next_step(*usage(fit.run))


def train_stages(recipe: str, settings: Sequence[str], folders: "RunFolders") -> "Fit":
    """What the recipe needs, and the recipe itself, shown as it goes."""
    from headway.runs import pipeline

    return pipeline.train(recipe, settings, folders, pipeline.Callbacks(bars, console.print, follow))


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
def resume(run: Path) -> None:
    """Go on with a RUN that was stopped, from its newest checkpoint. The result is that of a run without a break.

    \b
    Example:
      headway resume runs/parity-1
    """
    from headway.runs.fit import resume as resume_run

    with bars() as shown:
        session = resume_run(run, shown)
    follow(session)
    next_step("headway", "evaluate", run)


def follow(session: "Fit") -> None:
    """Train to the end and show what the run came to."""
    run = session.run.folder
    if not session.fabric.is_global_zero:  # one of several processes: the first one does the talking
        for _ in session.steps():
            pass
        sys.exit()
    size = sum(weight.numel() for weight in session.model.parameters())
    console.print(f"{session.recipe.name}: {size:,} parameters, {len(session.splits.train):,} examples, in {run}")
    if session.spec.batch_tokens is not None:
        in_words = (
            f"{session.sampler.steps_in(1):,} batches of like length, {session.sampler.padding():.1%} of them padding"
        )
        console.print(f"an epoch: {in_words}")
    for message in session.notes:
        note(message)
    if session.progress.ended:
        console.print("it is done: there is nothing to go on with")
    elif session.progress.step:
        console.print(f"going on from step {session.progress.step:,}")
    else:
        show_preflight(session)
    follow_steps(session)
    if session.interrupted is not None:
        console.print(f"stopped at step {session.progress.step:,} and saved")
        next_step("headway", "resume", run)
        sys.exit(128 + session.interrupted)
    print_results(session.run.results)


def show_preflight(fit: "Fit") -> None:
    for good, message in fit.preflight():
        console.print(Text(f"preflight: {message}", "dim")) if good else note(f"preflight: {message}")


def print_results(results: dict[str, Any]) -> None:
    step = results["weights_of_step"]
    console.print(f"{results['ended']} after {duration(results['seconds'])}; tested with the weights of step {step:,}")
    print_sets(results["test"])


def print_sets(sets: dict[str, dict[str, float]]) -> None:
    """A row for each set, a column for each metric."""
    names = list(next(iter(sets.values())))
    print_table(["set", *names], [[name, *metrics.values()] for name, metrics in sets.items()])
    if "bleu" in names:
        from headway.metrics.bleu import signatures

        for name, signature in signatures().items():
            console.print(Text(f"{name}: {signature}", "dim"))


VERBS = [train, resume]
