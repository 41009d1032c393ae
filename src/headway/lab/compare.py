"""Comparing fairly: the same data for all in the same order, the same budget, several seeds, how sure one can be."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway import recipes
from headway.config.errors import Problem
from headway.config.recipe import Recipe, TrainSpec
from headway.data.files import read_json
from headway.data.storage import write_whole
from headway.lab.budget import budget_words
from headway.lab.statistics import Interval, interval, paired_p
from headway.lab.variants import Variant
from headway.metrics import gain, worst
from headway.runs.fit import Fit, resume, start
from headway.runs.run import Run, parameters_of
from headway.tasks import TASKS
from headway.training.metrics_log import METRICS, read_records


@dataclass(frozen=True)
class Entrant:
    """A recipe with a variant and a seed, and the folder that it is trained in."""

    name: str
    recipe: Recipe
    folder: Path

    def fit(self) -> Fit:
        """Its training: from the start, or from where it was left."""
        if not self.folder.exists():
            return start(self.recipe, self.folder)
        if Run(self.folder).recipe != self.recipe:
            raise Problem(f"{self.folder} holds a run of another recipe: give another --out")
        return resume(self.folder)

    def in_short(self) -> str:
        run = Run(self.folder)
        score = run.task.metric_names[-1]
        sets = ", ".join(f"{name} {metrics[score]:.4f}" for name, metrics in run.results["test"].items())
        return f"{score} {sets} in {run.results['seconds']} s"


@dataclass(frozen=True)
class Entry:
    """What takes part: a recipe with settings of its own."""

    recipe: str
    words: tuple[str, ...]


def entries(names: Sequence[str], words: Sequence[str], variants: Sequence[Variant]) -> dict[str, Entry]:
    """Every recipe in every variant, by a name that is short enough for a table."""
    if any(word.startswith("train.seed=") for variant in variants for word in variant.words):
        raise Problem("train.seed cannot be varied: --seeds says how many there are, train.seed=1 which is the first")
    refuse_different_data({name: recipes.load(name, words) for name in names})
    found = {}
    for name in names:
        for variant in variants:
            recipe = recipes.load(name, [*words, *variant.words])
            title = f"{recipe.name if len(names) > 1 else ''} {variant.name}".strip() or recipe.name
            if title in found:
                raise Problem(f"{title!r} is there twice: leave one of them out, or name it otherwise")
            found[title] = Entry(name, (*words, *variant.words))
            TASKS[recipe.task](recipe).prepare()  # what is wrong with its data is known before the others are trained
    return found


def refuse_different_data(asked: Mapping[str, Recipe]) -> None:
    """Recipes are compared on the same data, cut in the same way; how texts are read is their own matter."""
    (first, one), *others = asked.items()
    for name, other in others:
        if one.task != other.task:
            raise Problem(f"{first} and {name} have different tasks: there is nothing to compare")
        for key, value in TASKS[one.task].identity(one.data).items():
            its_own = getattr(other.data, key)
            if value != its_own:
                both = f"data.{key} is {value} in {first} and {its_own} in {name}"
                raise Problem(f"{both}: to compare them fairly, set it for both, such as data.{key}={value}")


def within_budget(entered: Mapping[str, Entry], budget: str | None, folder: Path) -> dict[str, Entry]:
    """All held to the same budget. What it comes to is kept: a clock would say otherwise the next time."""
    path = folder / "budget.json"
    known = read_json(path) if path.exists() else {}
    if known.get("budget", budget) != budget:
        raise Problem(f"{folder} holds a comparison with --budget {known['budget']}: give another --out")
    found = {}
    for title, entry in entered.items():
        recipe = recipes.load(entry.recipe, entry.words)
        known[title] = known.get(title) or budget_words(budget, recipe)
        found[title] = Entry(entry.recipe, (*entry.words, *known[title]))
    if budget is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"budget": budget, **known}, indent=2))
    return found


def entrants(entered: Mapping[str, Entry], seeds: int, folder: Path) -> list[Entrant]:
    """All entries with the first seed, then all with the next: what is stopped early is still fair."""
    found = []
    for place in range(seeds):
        for title, entry in entered.items():
            first = recipes.load(entry.recipe, entry.words).train
            refuse_processes(first)
            seed = first.seed + place
            own = folder / f"{title} seed={seed}".replace("/", "-").replace(" ", "_")
            found.append(Entrant(title, recipes.load(entry.recipe, [*entry.words, f"train.seed={seed}"]), own))
    return found


@dataclass(frozen=True)
class Row:
    """What a variant came to over its seeds."""

    variant: str
    parameters: int
    diverged: int  # so many of its runs ended in numbers that are not finite, and are in none of the means
    seconds: Interval | None
    score: str  # the metric to judge by,
    watched: str  # and the one as long as training goes on
    scores: dict[str, dict[str, Interval]]  # of each test set, each metric
    curves: list[list[tuple[int, float]]]  # of each seed: steps, and the worst set's score in validation
    p: float | None  # how likely it is that the first row's predictions differ this much by chance
    reached: list[float]  # of each seed that reached the score asked for, after how many seconds


def summarise(entered: Sequence[Entrant], reach: float | None = None) -> list[Row]:
    """A row for each variant."""
    by_variant: dict[str, list[Run]] = {}
    for entrant in entered:
        by_variant.setdefault(entrant.name, []).append(Run(entrant.folder))
    baseline = next(iter(by_variant.values()))
    return [
        summarise_variant(name, runs, None if runs is baseline else paired(baseline, runs), reach)
        for name, runs in by_variant.items()
    ]


def summarise_variant(name: str, runs: list[Run], p: float | None, reach: float | None) -> Row:
    task, done = runs[0].task, [run for run in runs if run.is_done]
    results, watched = [run.results for run in done], task.validation_metrics()[-1]
    scores = {
        test: {metric: interval([result["test"][test][metric] for result in results]) for metric in task.metric_names}
        for test in (results[0]["test"] if results else ())
    }
    seconds = interval([result["seconds"] for result in results]) if results else None
    curves = [curve(run, watched) for run in done]
    reached = [] if reach is None else [time for run in done if (time := time_to(run, watched, reach)) is not None]
    diverged = len(runs) - len(done)
    return Row(name, parameters_of(task), diverged, seconds, task.metric_names[-1], watched, scores, curves, p, reached)


def paired(first: Sequence[Run], second: Sequence[Run]) -> float | None:
    """The p of a paired test on whether the answers of two variants are right, where both were tested on the same.

    If all seeds have the same tests as well, an example counts once, with its mean over the seeds.
    """
    differences: dict[str, list[np.ndarray]] = {}  # by what they were tested on
    for one, other in zip(first, second, strict=True):
        left, right = one.predictions() or {}, other.predictions() or {}
        for name in left.keys() & right.keys():
            if left[name].key == right[name].key:
                found = left[name].right * 1.0 - right[name].right
                differences.setdefault(left[name].key, []).append(found)
    if not differences:
        return None
    return paired_p(np.concatenate([np.mean(each, axis=0) for each in differences.values()]))


def refuse_processes(spec: TrainSpec) -> None:
    if spec.processes > 1:
        raise Problem("a study trains one run after another: leave train.processes at 1")


def curve(run: Run, score: str) -> list[tuple[int, float]]:
    records = read_records(run.folder / METRICS)
    return [(record["step"], worst(score, record["validation"])) for record in records if "validation" in record]


def time_to(run: Run, score: str, value: float) -> float | None:
    """After how many seconds of training the validation data first had this score, or a better one."""
    for record in read_records(run.folder / METRICS):
        if "validation" in record and gain(score, worst(score, record["validation"]), value) >= 0:
            return record["seconds"]
    return None
