"""plan."""

import click

from headway.cli.options import AT_LEAST_1, recipe_argument, settings_argument
from headway.cli.progress import following
from headway.cli.render import Output, Table, prints

MIB, GIB = 1 << 20, 1 << 30
ABOVE_0 = click.FloatRange(0, min_open=True)


@click.command()
@recipe_argument
@settings_argument
@click.option("--processes", type=AT_LEAST_1, help="Plan every grid of so many processes.")
@click.option("--memory", type=ABOVE_0, help="GiB of each process: which plans fit?")
@click.option("--bandwidth", type=ABOVE_0, help="GiB/s of each process: how long do they send?")
@prints
def plan(
    recipe: str, settings: tuple[str, ...], processes: int | None, memory: float | None, bandwidth: float | None
) -> Output:
    """Plan the training of a RECIPE in several processes: what each holds and sends in a step, without starting them.

    \b
    Examples:
      headway plan language train.parallel=data:8,tensor:4
      headway plan language model.width=1024 --processes 64 --memory 80 --bandwidth 50
    """
    from headway.api.parallel import plan_processes

    plans = plan_processes(recipe, settings=settings, processes=processes, progress=following())
    columns = ["grid", "weights", "gradients", "moments", "activations", "sent"]
    columns += ["fits"] * (memory is not None) + ["seconds"] * (bandwidth is not None)
    rows = []
    for each in plans:
        held = (each.weights, each.gradients, each.moments, each.activations, each.traffic)
        fits = [] if memory is None else ["yes" if each.memory <= memory * GIB else "no"]
        seconds = [] if bandwidth is None else [f"{each.traffic / (bandwidth * GIB):.2g}"]
        rows.append([each.parallel, *(round(size / MIB, 3) for size in held), *fits, *seconds])
    tables: list[str | Table] = ["MiB of each process, and MiB that it sends in a step:", Table(columns, rows)]
    if len(plans) == 1:
        (only,) = plans
        sent = [[name, size, only.formulas.get(name)] for name, size in only.sent.items()]
        tables += ["bytes sent, and by formula:", Table(["axis and collective", "bytes", "formula"], sent)]
    others = [setting for setting in settings if not setting.startswith(("train.parallel=", "train.processes="))]
    return Output(plans, tables, ["headway", "train", recipe, *others, f"train.parallel={plans[0].parallel}"])
