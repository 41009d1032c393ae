"""Fair comparisons: the same data in the same order, the same budget, several seeds, confidence intervals.

``model.norm=pre,post`` is two variants of a recipe; several such axes multiply.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, product
from pathlib import Path
from signal import Signals

from headway import recipes
from headway.config.errors import Problem
from headway.config.json_files import read_json
from headway.config.parallel import refuse_several
from headway.config.recipe import Recipe, TrainSpec
from headway.data.memory import portable
from headway.data.storage import write_whole
from headway.lab.baselines import baseline_rows
from headway.lab.budget import budget_overrides
from headway.lab.comparison import Comparison, about_contexts, shared_context, summarise
from headway.lab.plot import draw, plot_curves
from headway.recipes.size import refuse_too_large
from headway.runs.fit import Fit, resume, start
from headway.runs.pipeline import Reporter
from headway.runs.run import Run
from headway.tasks import TASKS
from headway.training.fabric import pick_device
from headway.training.finite import NotFinite


class Stopped(Problem):
    """A signal stopped a study; it can be continued."""

    def __init__(self, folder: Path, signal: Signals):
        super().__init__(f"stopped; the same command with --out {folder} continues from here")
        self.exit_code = 128 + signal


@dataclass(frozen=True)
class Variant:
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """Short enough for a table and a folder: ``norm=pre feedforward=sine(scale=16)``."""
        pairs = (override.partition("=") for override in self.overrides)
        return " ".join(f"{key.rpartition('.')[2]}={value}" for key, _, value in pairs)


def variants(vary: Sequence[str]) -> list[Variant]:
    """All combinations of axes such as ``model.norm=pre,post,rezero``."""
    axes = []
    for axis in vary:
        key, equals, choices = axis.partition("=")
        if not equals or not key or not choices:
            raise Problem(f"{axis!r} is not of the form key=value,value, such as model.norm=pre,post")
        axes.append([f"{key}={choice}" for choice in split_choices(choices)])
    return [Variant(overrides) for overrides in product(*axes)]


def split_choices(text: str) -> list[str]:
    """Split at commas outside of parentheses: ``relu,sine(scale=16)`` is two choices."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


@dataclass(frozen=True)
class Entry:
    """A recipe with overrides, to be trained with several seeds."""

    recipe: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Entrant:
    """An entry with one seed, and the folder that it is trained in."""

    name: str
    recipe: Recipe
    folder: Path

    def fit(self) -> Fit:
        """Start the run, or resume it."""
        if not self.folder.exists():
            return start(self.recipe, self.folder)
        if portable(Run(self.folder).recipe, self.folder) != portable(self.recipe):
            raise Problem(f"{self.folder} holds a run of another recipe: give another --out")
        return resume(self.folder)

    def train(self, reporter: Reporter) -> str:
        """Train to the end; returns a summary of the result."""
        fit = self.fit()
        try:
            reporter.follow(fit)
        except NotFinite as problem:
            return f"diverged at step {problem.step:,}"
        if fit.interrupted is not None:
            raise Stopped(self.folder.parent, fit.interrupted)
        run = Run(self.folder)
        score = run.task.metric_names[-1]
        sets = ", ".join(f"{name} {metrics[score]:.4f}" for name, metrics in run.results["test"].items())
        return f"{score} {sets} in {run.results['seconds']} s"


def entries(names: Sequence[str], overrides: Sequence[str], variants: Sequence[Variant]) -> dict[str, Entry]:
    """Every recipe in every variant, by a short title."""
    if any(override.startswith("train.seed=") for variant in variants for override in variant.overrides):
        raise Problem("train.seed cannot be varied: --seeds sets the number of seeds, train.seed=1 the first one")
    refuse_different_data({name: recipes.load(name, overrides) for name in names})
    entered: dict[str, Entry] = {}
    for name in names:
        for variant in variants:
            task = recipes.task(name, [*overrides, *variant.overrides])
            title = f"{task.recipe.name if len(names) > 1 else ''} {variant.name}".strip() or task.recipe.name
            if title in entered:
                raise Problem(f"{title!r} is there twice: remove one of them, or rename it")
            entered[title] = Entry(name, (*overrides, *variant.overrides))
            refuse_too_large(task, pick_device(task.recipe.train.device))
            task.prepare()  # problems with its data are reported before anything is trained
    return entered


def refuse_different_data(asked: Mapping[str, Recipe]) -> None:
    """Recipes are compared on the same examples; how they read the texts is up to them."""
    (first, one), *others = asked.items()
    for name, other in others:
        if one.task != other.task:
            raise Problem(f"{first} and {name} have different tasks: there is nothing to compare")
        theirs = vars(other.data)
        for key, value in TASKS[one.task].identity(one.data).items():
            if value != theirs[key]:
                both = f"data.{key} is {value} in {first} and {theirs[key]} in {name}"
                raise Problem(f"{both}: to compare them fairly, set it for both, such as data.{key}={value}")


def within_budget(entered: Mapping[str, Entry], budget: str | None, folder: Path) -> dict[str, Entry]:
    """The entries held to the same budget. Measured budgets are saved: measuring again would give other numbers."""
    path = folder / "budget.json"
    known = read_json(path) if path.exists() else {}
    if known.get("budget", budget) != budget:
        raise Problem(f"{folder} holds a comparison with --budget {known['budget']}: give another --out")
    limited = {}
    for title, entry in entered.items():
        recipe = recipes.load(entry.recipe, entry.overrides)
        known[title] = known.get(title) or budget_overrides(budget, recipe)
        limited[title] = Entry(entry.recipe, (*entry.overrides, *known[title]))
    if budget is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"budget": budget, **known}, indent=2))
    return limited


def entrants(entered: Mapping[str, Entry], seeds: int, folder: Path) -> list[Entrant]:
    """All entries with the first seed, then all with the next: a comparison that is stopped early is still fair."""
    made = []
    for number in range(seeds):
        for title, entry in entered.items():
            first = recipes.load(entry.recipe, entry.overrides).train
            refuse_processes(first)
            seed = first.seed + number
            own = folder / f"{title} seed={seed}".replace("/", "-").replace(" ", "_")
            made.append(Entrant(title, recipes.load(entry.recipe, [*entry.overrides, f"train.seed={seed}"]), own))
    return made


def refuse_processes(spec: TrainSpec) -> None:
    refuse_several(spec, "a study trains one run after another")


def compare(
    names: Sequence[str],
    overrides: Sequence[str],
    vary: Sequence[str],
    seeds: int,
    folder: Path,
    reporter: Reporter,
    budget: str | None = None,
    reach: float | None = None,
    baselines: bool = False,
) -> Comparison:
    entered = entries(names, overrides, variants(vary))
    limited = within_budget(entered, budget, folder)
    return train_all(entrants(limited, seeds, folder), folder, reporter, reach, baselines)


def train_all(
    entered: Sequence[Entrant],
    folder: Path,
    reporter: Reporter,
    reach: float | None = None,
    baselines: bool = False,
) -> Comparison:
    """Train one after another; the results are saved as comparison.json, the curves as comparison.png. Simple models
    come last."""
    runs = train_each(entered, reporter)
    context = shared_context(chain(*runs.values()))
    rows = summarise(runs, reach, context)
    if baselines:
        with reporter.reading() as show:
            rows += baseline_rows(next(iter(runs.values())), rows[0], show)
    write_whole(folder / "comparison.json", json.dumps([asdict(row) for row in rows], indent=2))
    curves = {row.variant: row.curves for row in rows if row.curves}
    picture = draw(folder / "comparison.png", plot_curves, curves, "step", f"validation {rows[0].watched}")
    return Comparison(folder, rows, picture, reach, about_contexts(runs, context))


def train_each(entered: Sequence[Entrant], reporter: Reporter) -> dict[str, list[Run]]:
    """Train one after another; returns the runs of each name, one for each seed."""
    runs: dict[str, list[Run]] = {}
    for number, entrant in enumerate(entered, start=1):
        reporter.say(f"{number}/{len(entered)}  {entrant.folder.name}: {entrant.train(reporter)}")
        runs.setdefault(entrant.name, []).append(Run(entrant.folder))
    return runs
