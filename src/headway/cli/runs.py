"""runs."""

from pathlib import Path

import click

from headway.cli.options import FILE
from headway.cli.render import Output, Table, prints


@click.command()
@click.argument("folder", type=FILE, default=Path("runs"))
@prints
def runs(folder: Path) -> Output:
    """List the runs in a FOLDER (default: runs) and its subfolders.

    \b
    Example:
      headway runs
    """
    from headway.api.run import list_runs

    listed = [run.summary() for run in list_runs(folder)]
    if not listed:
        return Output([], [f"no runs in {folder}"], ["headway", "train", "parity"])
    columns = list(dict.fromkeys(name for run in listed for name in run))
    rows = [[run.get(name) for name in columns] for run in listed]
    verb = "evaluate" if listed[-1]["state"] == "done" else "resume"
    return Output(listed, [Table(columns, rows)], ["headway", verb, listed[-1]["run"]])
