"""The terminal of headway learn: waits for keys and for saved files."""

import os
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.render import Block, echo, print_block
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.learn.watching import Watch

HERE, DEFAULT = Path("."), Path("learn")
PATIENCE = 0.3  # seconds between two looks at the file: it works wherever files have times


def watch() -> int:
    """Where nobody is at the keyboard, the exercise that is next is checked once."""
    from headway.learn.folder import Folder
    from headway.learn.watching import Watch

    place = HERE if Folder.is_one(HERE) else DEFAULT
    if not Folder.is_one(place):
        echo(f"{len(Folder.create(place).exercises)} exercises are in the folder {place}, a file each")
    from headway.cli.learn import show_training

    watching = Watch(Folder.open(place), progress=show_training)
    if not sys.stdin.isatty():
        show(watching.check())
        return int(not (watching.report and watching.report.passed))
    with single_keys():
        show(watching.check())
        while not watching.done:
            if watching.has_changed():
                show(watching.check())
            for key in pressed():
                press(watching, key)
    return 0


def press(watching: "Watch", key: str) -> None:
    try:
        show(watching.press(key))
    except Problem as problem:
        echo(str(problem))


def show(blocks: Iterable[Block]) -> None:
    for block in blocks:
        print_block(block)


def pressed() -> Iterator[str]:
    """The keys that were pressed, after a moment of waiting."""
    ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
    if ready:
        yield from os.read(sys.stdin.fileno(), 64).decode(errors="replace").lower() or "q"  # the terminal is gone


@contextmanager
def single_keys() -> Iterator[None]:
    """Keys arrive at once, and are not shown."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # keys that were pressed meanwhile stay
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
