"""Arguments and options that several verbs share."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from headway.config.errors import Problem

F = TypeVar("F", bound=Callable[..., Any])
MOST_DIGITS = 18


class OutFile(click.Path):
    """A file to write. Whether it can be written is checked before the work starts."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from headway.api.files import refuse_compressed

        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            raise Problem(f"cannot write {path.name}: there is no folder {path.parent}; create it first")
        refuse_compressed(path)
        return path


class Numbers(click.ParamType):
    """A list of whole numbers: ``8,32,128``."""

    name = "N,N,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        words = [word.strip() for word in str(value).split(",") if word.strip()]
        if not all(word.isdecimal() and len(word) <= MOST_DIGITS for word in words):
            self.fail(f"{value!r} is not a list of whole numbers, such as 8,32,128", param, ctx)
        return tuple(sorted({int(word) for word in words}))


class Shares(click.ParamType):
    """A list of shares: ``0,0.05,0.1``."""

    name = "SHARE,SHARE,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            shares = tuple(sorted({float(word) for word in str(value).split(",") if word.strip()}))
        except ValueError:
            shares = ()
        if not shares or not all(0 <= share < 1 for share in shares):
            self.fail(f"{value!r} is not a list of shares from 0 to below 1, such as 0,0.05,0.1", param, ctx)
        return shares


class Renamed(click.Option):
    """An option whose old name still works, and is not in the help."""

    def __init__(self, *declarations: Any, was: str, **options: Any):
        super().__init__(*declarations, **options)
        self.was = was

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        names = self.opts
        self.opts = [*names, self.was]
        super().add_to_parser(parser, ctx)
        self.opts = names


Decorator = Callable[[F], F]
FILE = click.Path(path_type=Path)
AT_LEAST_1 = click.IntRange(1)

recipe_argument = click.argument("recipe")
settings_argument = click.argument("settings", nargs=-1)
run_folder_option = click.option("--out", type=FILE, help="Run folder; default: runs/RECIPE-1, runs/RECIPE-2, ...")
study_folder_option = click.option("--out", type=FILE, help="Working folder; an existing one is continued.")
to_option = click.option("--to", metavar="LANGUAGE", help="Language to translate into, if the RUN knows several.")
engine_option = click.option(
    "--engine",
    type=click.Choice(["headway", "ctranslate2"]),
    default="headway",
    show_default=True,
    help="Who does the work: ctranslate2 is fast on a CPU; its export is made once and kept in the run.",
)
reading_option = click.option(
    "--with",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting for reading the file, such as data.text=review or data.encoding=latin-1.",
)


def trusted(ctx: click.Context, param: click.Parameter, functions: tuple[str, ...]) -> None:
    from headway.config.imports import trust

    trust(functions)


trust_option = click.option(
    "--trust",
    multiple=True,
    metavar="MODULE[:FUNCTION]",
    expose_value=False,
    callback=trusted,
    help="Let the recipe or the run use this Python function of yours, or the parts in this module; repeatable.",
)


def run_argument(command: F) -> F:
    """A run, and what it may name."""
    return trust_option(click.argument("run", type=FILE)(command))


def new_tokens_option(default: int, highest: int | None = None) -> Decorator:
    kind = click.IntRange(1, highest)
    text = "Maximum number of tokens to generate."
    return click.option(
        "--max-new-tokens", cls=Renamed, was="--limit", default=default, show_default=True, type=kind, help=text
    )


def seed_option(text: str) -> Decorator:
    return click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 1 << 40), help=text)


def lines_of(file: Path | None) -> list[str]:
    """The lines of a file, or of standard input."""
    from headway.api.files import read_lines

    return list(piped_lines()) if file is None else read_lines(file)


def piped_lines() -> Iterator[str]:
    """The lines of standard input; none if it is a terminal."""
    from headway.api.files import checked_lines

    return iter(()) if sys.stdin.isatty() else checked_lines(sys.stdin)
