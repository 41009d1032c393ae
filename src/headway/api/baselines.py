"""Baselines: what counting and linear models reach on the same split, trained in seconds, beside a network or alone."""

from pathlib import Path
from typing import NamedTuple

from headway import recipes
from headway.api.model import Model
from headway.api.progress import duration, reporter
from headway.api.run import Run
from headway.api.settings import Settings, clear_messages, overrides_of, source_of, texts_of
from headway.api.train import Data, HeldOut
from headway.config.arguments import checked
from headway.config.errors import Problem
from headway.data import memory
from headway.data.files import Progress
from headway.lab import baselines as lab
from headway.lab import overview
from headway.lab.baselines import Baselines
from headway.lab.overview import prepared
from headway.lab.survey import usual_recipe
from headway.runs import run as runs
from headway.runs.pipeline import Reporter
from headway.tasks.abilities import can
from headway.tasks.baselines import HasBaselines

__all__ = ["Baselines", "Beside", "baseline", "baseline_beside"]

LEAST_SECONDS = 3.0  # that a baseline may take after a training, however short,
LARGEST_SHARE = 1 / 2  # and else this share of the training's time


@checked
def baseline(
    what: str | Path | runs.Run | Model,
    *,
    data: Data = None,
    validation: HeldOut = None,
    test: HeldOut = None,
    settings: Settings = (),
    progress: bool | Reporter | None = None,
) -> Baselines:
    """What simple models reach on the split of a recipe, of a file, or of a trained run, with the run's network beside
    them.

    Labels: the most frequent one, and logistic regression on TF-IDF n-grams, plain and weighted by naive Bayes.
    Language models: xz, and n-grams with Kneser-Ney smoothing. Translators: the source itself, and a table of words.
    Reward models: the longer answer, and a weight for each word. They are trained in seconds, and kept in the cache.
    For a run, ``test`` may be other data to compare on; for a recipe or a file, ``data``, ``validation`` and ``test``
    are those of ``train``.

    >>> texts = [f"{word} film number {number}" for number in range(40) for word in ("a good", "a bad")]
    >>> simple = hw.baseline("classify", data=(texts, ["yes", "no"] * 40))
    >>> simple.best.metrics["test"]["accuracy"]
    1.0
    >>> hw.baseline(parity).network.name
    'this network'
    """
    with clear_messages(), reporter(progress).reading() as show:
        if isinstance(what, Model):
            what = what.run
        if isinstance(what, runs.Run) or is_run(what):
            if data is not None or validation is not None or settings:
                raise Problem(f"{what} is a run, and its split is fixed: pass other data to compare on as test")
            return of_run(Run.of(what), test, show)
        name, files = recipe_of(str(what), texts_of(settings))
        if files and data is not None:
            raise Problem(f"{what} is a file of data, and there are other data: pass one of them")
        overrides = [*files, *overrides_of(name, data, validation, test, settings=settings)]
        task = recipes.task(name, overrides)
        if recipes.is_recipe(task.recipe.start):  # what a network would start from changes nothing for a baseline
            task = recipes.task(name, [*overrides, "start=none"])
        return lab.baselines(prepared(task, show), show)


def is_run(what: str | Path) -> bool:
    return overview.is_run(str(what)) and (Path(what) / runs.RECIPE).exists()


def recipe_of(what: str, overrides: list[str]) -> tuple[str, list[str]]:
    """A recipe, or that which fits a file, with the setting that names the file."""
    if what in recipes.names() or Path(what).suffix == ".toml":
        return what, []
    files = what.split(",")
    if not all(Path(file).exists() for file in files):
        raise Problem(f"{what} is neither a recipe nor a file nor a run: headway recipes lists the recipes")
    recipe = "translate" if len(files) == 2 else usual_recipe(what, overrides)
    return recipe, [f"data.train={what}"]


def of_run(run: Run, test: HeldOut, show: Progress) -> Baselines:
    if test is None:
        return lab.beside(run, None, show)
    own = run.task.data_in(Path(source_of(run.task.columns, "test", test, {})), show)
    return lab.beside(run, {memory.NAME.sub("data", name): each for name, each in own.items()}, show)


class Beside(NamedTuple):
    """The baselines beside a trained network; or why there are none."""

    baselines: Baselines | None
    note: str = ""


@checked
def baseline_beside(run: Run, *, test: str | Path | None = None, progress: bool | Reporter | None = None) -> Beside:
    """The baselines that are shown at the end of a training or an evaluation: only if they take a fraction of the time
    that the training took, or were trained before."""
    if not can(run.task, HasBaselines):
        return Beside(None)
    try:
        with clear_messages(), reporter(progress).reading() as show:
            limit = max(LEAST_SECONDS, LARGEST_SHARE * (run.results["seconds"] if run.is_done else 0.0))
            expected = lab.seconds_to_train(run.task, show)
            if expected > limit:
                later = f"headway baseline {run.folder}"
                return Beside(
                    None, f"no baseline was trained, because it would take about {duration(expected)}: {later}"
                )
            return Beside(of_run(run, test, show))
    except Problem as problem:
        return Beside(None, f"no baseline: {problem}")
