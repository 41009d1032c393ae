"""Arguments and options that several verbs share."""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import click

from headway.config.errors import Problem

F = TypeVar("F", bound=Callable[..., Any])


class OutFile(click.Path):
    """A file to write. Whether it can be written is checked before the work starts."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from headway.data.files import COMPRESSIONS

        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            raise Problem(f"cannot write {path.name}: there is no folder {path.parent}; create it first")
        if path.suffix.lower() in COMPRESSIONS:
            raise Problem(f"{path} would not be compressed: leave out {path.suffix}")
        return path


class Numbers(click.ParamType):
    """A list of whole numbers: ``8,32,128``."""

    name = "N,N,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        words = [word for word in str(value).split(",") if word.strip()]
        if not all(word.strip().isdigit() for word in words):
            self.fail(f"{value!r} is not a list of whole numbers, such as 8,32,128", param, ctx)
        return tuple(sorted({int(word) for word in words}))


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

run_argument = click.argument("run", type=FILE)
recipe_argument = click.argument("recipe")
settings_argument = click.argument("settings", nargs=-1)
run_folder_option = click.option("--out", type=FILE, help="Run folder; default: runs/RECIPE-1, runs/RECIPE-2, ...")
study_folder_option = click.option("--out", type=FILE, help="Working folder; an existing one is continued.")
reading_option = click.option(
    "--with",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting for reading the file, such as data.text=review or data.encoding=latin-1.",
)


def new_tokens_option(default: int, highest: int | None = None) -> Decorator:
    kind = click.IntRange(1, highest)
    text = "Maximum number of tokens to generate."
    return click.option(
        "--max-new-tokens", cls=Renamed, was="--limit", default=default, show_default=True, type=kind, help=text
    )


def seed_option(text: str) -> Decorator:
    return click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 1 << 40), help=text)


def free_folder(name: str) -> Path:
    """The first of runs/NAME-1, runs/NAME-2, ... that does not exist; the first run creates it."""
    return next(path for number in count(1) if not (path := Path("runs", f"{name}-{number}")).exists())


def lines_of(file: Path | None) -> list[str]:
    """The lines of a file, or of standard input."""
    from headway.data.files import open_text, require_file

    if file is None:
        return [] if sys.stdin.isatty() else list(piped_lines())
    require_file(file)
    with open_text(file, "utf-8", setting=None) as content:
        return [line.rstrip("\r\n") for line in content]


def piped_lines() -> Iterator[str]:
    from headway.data.examples import is_unicode

    try:
        for number, line in enumerate(sys.stdin, start=1):
            if not is_unicode(line):
                raise Problem(f"the standard input, line {number}, is not in UTF-8: convert it, for example with iconv")
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise Problem(f"the standard input is not {error.encoding}: {error.reason} at byte {error.start}") from None
