"""The verbs of pre-training: pretrain, fill."""

from pathlib import Path

import click

from headway.cli.asking import run_argument
from headway.cli.output import console, json_option, print_json, print_table, warn
from headway.cli.training import train_recipe
from headway.config.errors import Problem


@click.command()
@click.argument("settings", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; runs/RECIPE-1 and so on if left out.")
def pretrain(settings: tuple[str, ...], out: Path | None) -> None:
    """Learn from texts without labels, for tasks that have few: the recipe pretrain, or another one of its task, with
    SETTINGS changed by key=value. What to learn is data.objective: masked, next, replaced, span, causal, prefix.

    \b
    Examples:
      headway pretrain
      headway pretrain data.train=reviews.jsonl data.objective="masked(rate=0.3)"
      headway pretrain data.train=train.jsonl,more.jsonl data.exclude=test.jsonl data.objective=span
      headway train classify start=runs/pretrain-1 data.train=labelled.csv
    """
    from headway import recipes

    named = bool(settings) and "=" not in settings[0]
    recipe, words = (settings[0], settings[1:]) if named else ("pretrain", settings)
    task = recipes.load(recipe, words).task
    if task != "pretrain":
        raise Problem(f"{recipe} is a recipe of {task}, not of pretrain: headway train {recipe} trains it")
    train_recipe(recipe, words, out)


@click.command()
@run_argument
@click.argument("text")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="Candidates for each place.")
@json_option
def fill(run: Path, text: str, top: int, as_json: bool) -> None:
    """Fill in each [MASK] of a TEXT with what a pre-trained RUN finds likely there.

    \b
    Example:
      headway fill runs/pretrain-1 "for [MASK] in range(10):"
    """
    from headway.runs.model import load

    model = load(run)
    found = model.fill(text, top)
    for message in model.run.notes:
        warn(message)
    if as_json:
        print_json([[{"piece": piece, "probability": share} for piece, share in place] for place in found])
        return
    for number, place in enumerate(found, start=1):
        if len(found) > 1:
            console.print(f"[MASK] number {number}")
        print_table(["piece", "probability"], [(repr(piece), share) for piece, share in place])


VERBS = [pretrain, fill]
