"""Plans of training in several processes, before any of them is started."""

from pathlib import Path

from headway.api.progress import reporter
from headway.api.settings import Settings, clear_messages, texts_of
from headway.config.arguments import at_least, checked
from headway.lab.plan import Plan, plans
from headway.metrics.table import Listing
from headway.runs.pipeline import Reporter

__all__ = ["Plan", "plan_processes"]


@checked
def plan_processes(
    recipe: str | Path,
    *,
    settings: Settings = (),
    processes: int | None = None,
    progress: bool | Reporter | None = None,
) -> Listing[Plan]:
    """What each process would hold and send in a training step, in bytes, for the grid that ``train.parallel`` asks
    for; or, with a number of ``processes``, for every grid of them that the model allows. Nothing is started.

    >>> (plan,) = hw.plan_processes("parity", settings={"data.examples": 50, "train.parallel": "data:2,tensor:4"})
    >>> plan.processes, plan.sent["tensor all-reduce"] == plan.formulas["tensor all-reduce"]
    (8, True)
    """
    if processes is not None:
        at_least(1, processes=processes)
    with clear_messages(), reporter(progress).reading() as show:
        return Listing(plans(str(recipe), texts_of(settings), processes, show))
