"""Learn sequence models by writing them: exercises that are cut from the library itself, and check themselves.

from headway import learn

learn.check("attn.multihead", my_function)    # in a notebook; in a terminal: headway learn
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.learn.exercise import Report


class Checked:
    """The report of a check, which a notebook or ``print`` shows."""

    def __init__(self, report: "Report"):
        self.report = report

    @property
    def passed(self) -> bool:
        return self.report.passed

    def __repr__(self) -> str:
        from rich.console import Console

        from headway.learn.showing import shown

        console = Console(width=110, force_jupyter=False)
        with console.capture() as capture:
            for block in shown(self.report):
                console.print(block)
        return capture.get().rstrip()


def check(name: str, function: Callable[..., Any], seed: int = 1) -> Checked:
    """Check a function of yours against that of the library: ``check("attn.scaled", my_function)``.

    It runs in this process, without the limits that ``headway learn check`` sets for files.
    """
    from headway.learn.catalogue import exercise
    from headway.learn.exercise import FillIn
    from headway.learn.submission import check_function

    found = exercise(name)
    if not isinstance(found, FillIn):
        raise Problem(f"{name} is not an exercise to fill in: use headway learn check {name}")
    if not callable(function):
        raise Problem(f"{function!r:.80} is not a function")
    return Checked(check_function(found, function, seed))
