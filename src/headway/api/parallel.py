"""Training in several processes, before any of them is started: what each holds and sends."""

from pathlib import Path

from headway.api.progress import reporter
from headway.api.settings import Settings, clear_messages, texts_of
from headway.config.arguments import at_least, checked
from headway.lab.interference import Interference
from headway.lab.parallel_lesson import Kind, ParallelLesson, PartShare, lesson
from headway.lab.plan import Plan, plans
from headway.metrics.table import Listing
from headway.runs.pipeline import Reporter

__all__ = [
    "Interference",
    "Kind",
    "ParallelLesson",
    "PartShare",
    "Plan",
    "explain_parallel",
    "plan_processes",
]


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


@checked
def explain_parallel(
    recipe: str | Path,
    *,
    settings: Settings = (),
    processes: int = 2,
    progress: bool | Reporter | None = None,
) -> ParallelLesson:
    """What each kind of parallelism does to the model of a recipe: which weights stand where, what a process sends at
    which part, in bytes, and what becomes of a feed-forward network that also reads its neighbours, which is computed.
    The kinds are those that ``train.parallel`` names, or all, with so many ``processes``. Nothing is started.

    >>> lesson = hw.explain_parallel("parity", settings={"data.examples": 50, "model.width": 16})
    >>> [(each.axis, each.halo, each.is_right) for each in lesson.neighbours]
    [('data', None, True), ('tensor', None, True), ('context', False, False), ('context', True, True)]
    >>> lesson.save("parallel.svg")
    """
    at_least(2, processes=processes)
    with clear_messages(), reporter(progress).reading() as show:
        return lesson(str(recipe), texts_of(settings), processes, show)
