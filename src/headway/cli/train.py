"""train, resume, pretrain."""

from collections.abc import Sequence
from pathlib import Path

import click

from headway.cli.options import recipe_argument, run_argument, run_folder_option, settings_argument
from headway.cli.progress import bars, follow, following
from headway.cli.render import Output, prints, try_it
from headway.config.errors import Problem


@click.command()
@recipe_argument
@settings_argument
@run_folder_option
@prints
def train(recipe: str, settings: tuple[str, ...], out: Path | None) -> Output:
    """Train a RECIPE: a built-in name or a TOML file. SETTINGS such as model.width=64 override it.

    \b
    Examples:
      headway train parity
      headway train parity train.seed=7 model.layers=1 --out runs/small
      headway train my.toml train.steps=600 train.checkpoint_every=20
      headway train classify start=runs/pretrain-1 data.train=reviews.csv
      headway train sentiment-pretrained start.train.steps=3000
    """
    return train_recipe(recipe, settings, out)


def train_recipe(recipe: str, settings: Sequence[str], out: Path | None) -> Output:
    from headway.runs import pipeline

    run = pipeline.train(recipe, settings, pipeline.RunFolders(out), following()).run
    return Output({"run": run.folder, **run.results}, next_command=try_it(run))


@click.command()
@run_argument
@prints
def resume(run: Path) -> Output:
    """Resume a stopped RUN from its newest checkpoint. The result is the same as without the stop.

    \b
    Example:
      headway resume runs/parity-1
    """
    from headway.runs.fit import resume as resume_run

    with bars() as shown:
        fit = resume_run(run, shown)
    follow(fit)
    return Output({"run": run, **fit.run.results}, next_command=["headway", "evaluate", run])


@click.command()
@settings_argument
@run_folder_option
@prints
def pretrain(settings: tuple[str, ...], out: Path | None) -> Output:
    """Pre-train on unlabelled text. The recipe is pretrain, or another recipe of its task, with SETTINGS overriding it;
    data.objective is what to learn: masked, next, replaced, span, causal or prefix.

    \b
    Examples:
      headway pretrain
      headway pretrain data.train=reviews.jsonl data.objective="masked(rate=0.3)"
      headway pretrain data.train=train.jsonl,more.jsonl data.exclude=test.jsonl data.objective=span
      headway train classify start=runs/pretrain-1 data.train=labelled.csv
    """
    from headway import recipes
    from headway.tasks.abilities import Pretrains, can

    named = bool(settings) and "=" not in settings[0]
    recipe, overrides = (settings[0], settings[1:]) if named else ("pretrain", settings)
    task = recipes.task(recipe, overrides)
    if not can(task, Pretrains):
        raise Problem(f"{recipe} is a recipe of {task.recipe.task}, not of pretrain: use headway train {recipe}")
    return train_recipe(recipe, overrides, out)
