"""recipes, show, schedule."""

import re

import click

from headway.cli.options import recipe_argument, settings_argument
from headway.cli.progress import following
from headway.cli.render import Chart, Output, Table, prints


@click.command()
@click.argument("name", metavar="[RECIPE]", required=False)
@prints
def recipes(name: str | None) -> Output:
    """List the built-in recipes, or all settings of one RECIPE.

    \b
    Examples:
      headway recipes
      headway recipes parity
    """
    from headway.api.overview import list_recipes, list_settings

    if name is None:
        known = list_recipes()
        table = Table(["recipe", "task", "about"], [(each.name, each.task, each.about) for each in known])
        return Output(known, [table], ["headway", "train", "parity"])
    listed = list_settings(name)
    about = next(each.value for each in listed if each.key == "about")
    rows = [
        (each.key, "none" if each.value is None else str(each.value), each.about, ", ".join(each.choices))
        for each in listed
        if "." in each.key
    ]
    required = re.findall(r"(?<![\w.])[\w.]+=[\w.]+", about)  # the description names the settings that a recipe needs
    return Output(
        listed,
        [f"{name}: {about}", Table(["key", "value", "meaning", "choices"], rows)],
        ["headway", "train", name, *(required or ["model.width=64"])],
    )


@click.command()
@click.argument("name", metavar="RECIPE|RUN")
@settings_argument
@prints
def show(name: str, settings: tuple[str, ...]) -> Output:
    """Show the layers of a RECIPE or a RUN. With output shapes, parameters, and the FLOPs of a training step.

    \b
    Examples:
      headway show parity
      headway show substring model.feedforward=swiglu
      headway show runs/parity-1
    """
    from headway.api.overview import is_run, summarize

    model = summarize(name, settings=settings)
    return Output(
        {"layers": model.layers, "parameters": model.parameters, "flops_of_a_step": model.flops},
        [model.table(), model.cost()],
        ["headway", "evaluate" if is_run(name) else "check", name, *settings],
    )


@click.command()
@recipe_argument
@settings_argument
@prints
def schedule(recipe: str, settings: tuple[str, ...]) -> Output:
    """Plot the learning rate of a RECIPE over its steps.

    \b
    Example:
      headway schedule substring train.schedule=cosine train.warmup=300
    """
    from headway.api.overview import schedule as schedule_of

    plan = schedule_of(recipe, settings=settings, progress=following())
    points = zip(plan.steps, plan.rates, strict=True)
    warmup = f"warm-up {plan.warmup:,} of {plan.total_steps:,} steps"
    return Output(
        [{"step": step, "learning_rate": rate} for step, rate in points],
        [f"{plan.schedule}: peak {plan.peak:.2e}, {warmup}", Chart(plan.rates, end=plan.total_steps)],
        ["headway", "train", recipe, *settings],
    )
