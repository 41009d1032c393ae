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
    verbs = {"done": "evaluate", "can be resumed": "resume"}  # a damaged one has to be mended first
    usable = [["headway", verbs[run["state"]], run["run"]] for run in listed if run["state"] in verbs]
    return Output(listed, [Table(columns, rows)], usable[-1] if usable else ())
