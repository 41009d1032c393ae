"""Comparing variants fairly: the same data in the same order for all, several seeds, and how sure the means are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway import recipes
from headway.errors import Problem
from headway.lab.statistics import Interval, interval
from headway.lab.variants import Variant
from headway.metrics.judge import worst
from headway.recipe import Recipe, TrainSpec
from headway.run import Run, parameters_of
from headway.session import Session, resume, start
from headway.train.record import read_records


@dataclass(frozen=True)
class Entrant:
    """A variant with a seed, and the folder that it is trained in."""

    variant: Variant
    recipe: Recipe
    folder: Path

    def session(self) -> Session:
        """Its training: from the start, or from where it was left."""
        if not self.folder.exists():
            return start(self.recipe, self.folder)
        if Run(self.folder).recipe != self.recipe:
            raise Problem(f"{self.folder} holds a run of another recipe: give another --out")
        return resume(self.folder)

    def in_short(self) -> str:
        run = Run(self.folder)
        score = run.task.scores[-1]
        sets = ", ".join(f"{name} {metrics[score]:.4f}" for name, metrics in run.results["test"].items())
        return f"{score} {sets} in {run.results['seconds']} s"


def entrants(name: str, words: Sequence[str], variants: Sequence[Variant], seeds: int, folder: Path) -> list[Entrant]:
    """All variants with the first seed, then all with the next: what is stopped early is still fair."""
    spec = recipes.load(name, words).train
    first = spec.seed
    refuse_processes(spec)
    if any(word.startswith("train.seed=") for variant in variants for word in variant.words):
        raise Problem("train.seed cannot be varied: --seeds says how many there are, train.seed=1 which is the first")
    if len(set(variants)) < len(variants):
        raise Problem("the same variant is there twice: leave one of them out")
    return [
        Entrant(
            variant,
            recipes.load(name, [*words, *variant.words, f"train.seed={seed}"]),
            folder / f"{variant.name} seed={seed}".strip().replace("/", "-").replace(" ", "_"),
        )
        for seed in range(first, first + seeds)
        for variant in variants
    ]


@dataclass(frozen=True)
class Row:
    """What a variant came to over its seeds."""

    variant: str
    parameters: int
    diverged: int  # so many of its runs ended in numbers that are not finite, and are in none of the means
    seconds: Interval | None
    score: str  # the metric to judge by
    scores: dict[str, dict[str, Interval]]  # of each test set, each metric
    curves: list[list[tuple[int, float]]]  # of each seed: steps, and the worst set's score in validation


def summarise(entered: Sequence[Entrant]) -> list[Row]:
    """A row for each variant."""
    by_variant: dict[Variant, list[Run]] = {}
    for entrant in entered:
        by_variant.setdefault(entrant.variant, []).append(Run(entrant.folder))
    return [summarise_variant(variant, runs) for variant, runs in by_variant.items()]


def summarise_variant(variant: Variant, runs: list[Run]) -> Row:
    task, done = runs[0].task, [run for run in runs if run.is_done]
    results, score = [run.results for run in done], task.scores[-1]
    scores = {
        name: {metric: interval([result["test"][name][metric] for result in results]) for metric in task.scores}
        for name in (results[0]["test"] if results else ())
    }
    seconds = interval([result["seconds"] for result in results]) if results else None
    curves = [curve(run, score) for run in done]
    name = variant.name or runs[0].recipe.name
    return Row(name, parameters_of(task), len(runs) - len(done), seconds, score, scores, curves)


def refuse_processes(spec: TrainSpec) -> None:
    if spec.processes > 1:
        raise Problem("a study trains one run after another: leave train.processes at 1")


def curve(run: Run, score: str) -> list[tuple[int, float]]:
    records = read_records(run.folder / "metrics.jsonl")
    return [(record["step"], worst(score, record["validation"])) for record in records if "validation" in record]
