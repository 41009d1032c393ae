"""The verbs that read: show, recipes, runs, schedule."""

import re
from dataclasses import asdict
from pathlib import Path

import click

from headway.cli.output import console, json_option, next_step, print_json, print_table
from headway.cli.progress import bars
from headway.config.errors import Problem


@click.command()
@click.argument("name", metavar="[RECIPE]", required=False)
@json_option
def recipes(name: str | None, as_json: bool) -> None:
    """List the built-in recipes; or all settings of one RECIPE, each with its meaning.

    \b
    Examples:
      headway recipes
      headway recipes parity
    """
    from headway import recipes
    from headway.config.settings import rows
    from headway.tasks import TASKS

    if name is None:
        found = [recipes.load(each) for each in recipes.names()]
        if as_json:
            print_json([{"name": each.name, "task": each.task, "about": each.about} for each in found])
            return
        print_table(["recipe", "task", "about"], [(each.name, each.task, each.about) for each in found])
        next_step("headway", "train", "parity")
        return
    recipe = recipes.load(name)
    tables = {**recipes.TABLES, **TASKS[recipe.task].tables}
    settings = [
        {
            "key": row.key,
            "value": row.value,
            "about": row.about,
            "choices": row.choices or list(tables.get(row.key, ())),
        }
        for row in rows(recipe)
    ]
    if as_json:
        print_json(settings)
        return
    console.print(f"{name}: {recipe.about}")
    print_table(
        ["key", "value", "meaning", "choices"],
        [
            (row["key"], "none" if row["value"] is None else str(row["value"]), row["about"], ", ".join(row["choices"]))
            for row in settings
            if "." in row["key"]
        ],
    )
    needed = re.findall(r"[\w.]+=[\w.]+", recipe.about)  # what a recipe cannot do without, it says
    next_step("headway", "train", name, *(needed or ["model.width=64"]))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@json_option
def runs(folder: Path, as_json: bool) -> None:
    """List the runs in a FOLDER (runs, if left out) and below it.

    \b
    Example:
      headway runs
    """
    from headway.runs.run import all_runs

    found = [run.summary() for run in all_runs(folder)]
    if as_json:
        print_json(found)
        return
    if not found:
        console.print(f"no runs in {folder}")
        next_step("headway", "train", "parity")
        return
    columns = list(dict.fromkeys(name for run in found for name in run))
    print_table(columns, [[run.get(name) for name in columns] for run in found])
    verb = "evaluate" if found[-1]["state"] == "done" else "resume"
    next_step("headway", verb, found[-1]["run"])


@click.command()
@click.argument("name", metavar="RECIPE|RUN")
@click.argument("settings", nargs=-1)
@json_option
def show(name: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Show the layers of a RECIPE or a RUN: the shape that comes out of each, its parameters, the cost of a step.

    \b
    Examples:
      headway show parity
      headway show substring model.feedforward=swiglu
      headway show runs/parity-1
    """
    from headway import recipes
    from headway.lab.layers import layers, step_flops
    from headway.runs.run import Run
    from headway.tasks import TASKS

    is_run = name not in recipes.names() and Path(name).is_dir()
    if is_run and settings:
        raise Problem(f"{name} is a run, and its settings are fixed: leave out {' '.join(settings)}")
    recipe = Run(name).recipe if is_run else recipes.load(name, settings)
    task = Run(name).task if is_run else TASKS[recipe.task](recipe)
    if not is_run:
        task.prepare()
    train = task.splits().train
    model, batch = task.model(), train.batch(train.sampler(recipe.train).rows_at(1))
    rows, flops = layers(task, model, batch), step_flops(task, model, batch)
    parameters = sum(weight.numel() for weight in model.parameters())
    if as_json:
        print_json({"layers": [asdict(row) for row in rows], "parameters": parameters, "flops_of_a_step": flops})
        return
    print_table(
        ["layer", "kind", "output", "parameters"],
        [(row.name, row.kind, " x ".join(map(str, row.output)), row.parameters) for row in rows],
    )
    console.print(f"{parameters:,} parameters; a training step of {len(batch)} examples is {flops / 1e6:,.1f} MFLOP")
    next_step("headway", "evaluate" if is_run else "check", name, *settings)


@click.command()
@click.argument("recipe")
@click.argument("settings", nargs=-1)
@json_option
def schedule(recipe: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Draw the learning rate of a RECIPE over its steps.

    \b
    Example:
      headway schedule substring train.schedule=cosine train.warmup=300
    """
    from headway import recipes
    from headway.config.parts import bind
    from headway.lab.chart import columns
    from headway.runs.fit import with_steps
    from headway.tasks import TASKS
    from headway.training.schedules import SCHEDULES

    loaded = recipes.load(recipe, settings)
    spec = loaded.train
    if spec.epochs is not None:  # how many steps they are, the data tell
        task = TASKS[loaded.task](loaded)
        with bars() as shown:
            task.prepare(shown)
            spec = with_steps(spec, task.splits(shown).train.sampler(spec))
    factor = bind(SCHEDULES, spec.schedule, "train.schedule", warmup=spec.warmup, steps=spec.steps)
    width = min(60, spec.steps + 1)
    steps = [round(place * spec.steps / (width - 1)) for place in range(width)]
    rates = [spec.learning_rate * factor(step) for step in steps]
    if as_json:
        print_json([{"step": step, "learning_rate": rate} for step, rate in zip(steps, rates, strict=True)])
        return
    peak = spec.learning_rate * max(factor(step) for step in range(spec.steps + 1))
    console.print(f"{spec.schedule}: peak {peak:.2e}, warm-up {spec.warmup:,} of {spec.steps:,} steps")
    for line in columns(rates):
        console.print(f"│{line}")
    console.print(f"└{'─' * width}")
    console.print(f" 0{spec.steps:>{width - 1},}")
    next_step("headway", "train", recipe, *settings)


VERBS = [show, recipes, runs, schedule]
