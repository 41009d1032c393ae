"""train, resume, pretrain."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.baseline import beside, blocks_beside, values_beside
from headway.cli.options import recipe_argument, run_argument, run_folder_option, settings_argument, trust_option
from headway.cli.progress import following
from headway.cli.render import Output, prints

if TYPE_CHECKING:
    from headway.api.model import Model


@click.command()
@recipe_argument
@settings_argument
@run_folder_option
@trust_option
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
    from headway.api.train import train as train_recipe

    return trained(train_recipe(recipe, settings=settings, out=out, progress=following()))


def trained(model: "Model") -> Output:
    return with_baselines(model, model.run.next_command)


def with_baselines(model: "Model", next_command: Sequence[object]) -> Output:
    shown = beside(model.run)
    values = {"run": model.run.folder, **model.run.results, **values_beside(shown)}
    return Output(values, blocks_beside(shown), next_command)


@click.command()
@run_argument
@settings_argument
@trust_option
@prints
def resume(run: Path, settings: tuple[str, ...]) -> Output:
    """Resume a stopped RUN from its newest checkpoint. The result is the same as without the stop. SETTINGS may say
    where it goes on: train.parallel, train.processes, train.nodes, train.device, train.threads.

    \b
    Examples:
      headway resume runs/parity-1
      headway resume runs/parity-1 train.parallel=data:4
    """
    from headway.api.run import Run

    model = Run(run).resume(settings=settings, progress=following())
    return with_baselines(model, ["headway", "evaluate", run])


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
    from headway.api.train import pretrain as pretrain_recipe

    named = bool(settings) and "=" not in settings[0]
    recipe, overrides = (settings[0], settings[1:]) if named else ("pretrain", settings)
    return trained(pretrain_recipe(recipe, settings=overrides, out=out, progress=following()))
