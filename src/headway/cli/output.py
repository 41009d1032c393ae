"""What verbs have in common: tables, JSON, notes, and a line about what to do next."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.runs.run import Run

console = Console(highlight=False, markup=False)
if not console.is_terminal:
    console = Console(highlight=False, markup=False, width=160)  # a pipe has no width to fit into

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # what a label might tell the terminal to do


class OutFile(click.Path):
    """A file that will be written, perhaps after long work: whether it can be is found out first."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from headway.data.files import COMPRESSIONS

        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            raise Problem(f"there is no folder {path.parent} to write {path.name} into: make it first")
        if path.suffix.lower() in COMPRESSIONS:
            raise Problem(f"{path} would not be packed: leave out {path.suffix}")
        return path


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Numbers to the right, text to the left."""
    cells = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, column in enumerate(columns):
        numbers = all(isinstance(row[place], int | float) for row in cells)
        table.add_column(column, justify="right" if numbers else "left")
    for row in cells:
        table.add_row(*(Text(show(cell)) for cell in row))
    console.print(table)


def show(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4f}" if isinstance(cell, float) else CONTROL.sub("\ufffd", str(cell).replace("\n", "\\n"))


def note(message: str) -> None:
    console.print(Text.assemble(("note: ", "yellow"), message), soft_wrap=True)


def warn(message: str) -> None:
    """On standard error, where it is in nobody's way who reads the output."""
    click.echo(f"headway: note: {message}", err=True)


def next_step(*words: object) -> None:
    """The last line of a verb: the command that one would want now, ready to be copied into a shell."""
    command = shlex.join(str(word) for word in words)
    console.print(Text.assemble("next: ", (command, "bold")), soft_wrap=True)


def usage(run: "Run") -> list[object]:
    """The command to try a trained run with."""
    from headway.tasks import abilities

    folder, example = run.folder, run.task.example
    commands: dict[type[abilities.Ability], list[object]] = {
        abilities.Pretrains: ["train", "classify", f"start={folder}", "data.train=FILE"],
        abilities.Translates: ["translate", folder, example],
        abilities.RanksAnswers: ["reward", folder, example, "an answer", "another answer"],
        abilities.HasWordVectors: ["vectors", "nearest", folder, example],
        abilities.Generates: ["generate", folder, example],
        abilities.Predicts: ["predict", folder, example],
    }
    return ["headway", *next(words for ability, words in commands.items() if abilities.can(run.task, ability))]


def draw(save: Callable[[], None]) -> bool:
    """Whether there is a picture now; without matplotlib there is a note about it."""
    try:
        save()
    except Problem as problem:
        warn(str(problem))
        return False
    return True


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
