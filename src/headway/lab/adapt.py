"""What to do with a pre-trained run and a few labels: tune it, read it out, or ask it with examples in the prompt."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from headway import recipes
from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.data.files import Progress, silent
from headway.data.samplers import in_turns
from headway.data.storage import write_whole
from headway.lab.compare import Entrant
from headway.lab.in_context import Prompted, Shots
from headway.lab.plot import Curve
from headway.lab.statistics import Interval, interval
from headway.runs.run import Run
from headway.tasks.classify import Classify

RECIPE = "adapt"
TUNING, PROBE, IN_CONTEXT = "fine-tuning", "linear probe", "in context"
WAYS = {  # how the weights are trained, as settings
    TUNING: (),
    PROBE: ("train.freeze=encoder", "train.learning_rate=1e-2", "model.dropout=0"),
}
RESULT = "adaptation.json"


@dataclass(frozen=True)
class Point:
    way: str
    examples: int
    seed: int
    accuracy: float


@dataclass(frozen=True)
class Study:
    """A run, the labelled texts, and how many of them each way may see."""

    run: Run
    words: tuple[str, ...]  # settings of the recipe adapt
    sizes: tuple[int, ...]  # of what weights are trained on
    shots: tuple[int, ...]  # in a prompt
    seeds: int
    tests: int  # texts that prompts are tried on
    names: tuple[str, ...]  # words for the labels, in their order; none: the labels themselves
    folder: Path

    def recipe(self, *words: str) -> Recipe:
        return recipes.load(RECIPE, [f"start={self.run.folder}", *self.words, *words])

    def task(self, seed: int, *words: str) -> Classify:
        task = Classify(self.recipe(f"train.seed={seed}", *words))
        task.prepare()
        return task

    def entrants(self) -> Iterator[tuple[Point, Entrant]]:
        """All that is to be trained, with points that have no accuracy yet."""
        for seed in self.all_seeds():
            for examples in self.sizes:
                for way, own in WAYS.items():
                    recipe = self.recipe(f"train.seed={seed}", f"data.examples={examples}", *own)
                    folder = self.folder / f"{way.replace(' ', '-')}_{examples}_seed={seed}"
                    yield Point(way, examples, seed, float("nan")), Entrant(way, recipe, folder)

    def all_seeds(self) -> range:
        first = self.recipe().train.seed
        return range(first, first + self.seeds)

    def labelled(self) -> int:
        """How many texts there are to train on; what is wrong with the data is found out here."""
        return int(self.task(self.all_seeds()[0]).parts["train"].sum())

    def label_words(self) -> list[str]:
        """What the labels are called in prompts."""
        task = self.task(self.all_seeds()[0])
        if self.names and len(self.names) != len(task.labels):
            there = f"{len(task.labels)} labels ({', '.join(task.labels)})"
            raise Problem(f"there are {there} and {len(self.names)} words for them")
        return list(self.names) or task.labels

    def prompted(self, asked: Prompted, progress: Progress = silent) -> Iterator[Point]:
        """In context: nothing is trained. Of the prompts, those that fit in."""
        for seed in self.all_seeds():
            splits = self.task(seed).splits()
            train, test = splits.train, splits.test["test"]
            tried = np.random.default_rng(0).permutation(len(test))[: self.tests].tolist()
            for count in (count for count in self.shots if count <= asked.most):
                chosen = balanced(train.labels, count, seed)
                accuracy = asked.accuracy(test, tried, Shots.of(train, chosen), progress)
                yield Point(IN_CONTEXT, count, seed, accuracy)


def balanced(labels: np.ndarray, count: int, seed: int) -> list[int]:
    """So many examples, as many of each class, in a random order."""
    random = np.random.default_rng([seed, count])
    order = random.permutation(len(labels))
    return random.permutation(in_turns(order, labels[order])[:count]).tolist()


def accuracy_of(folder: Path) -> float:
    return Run(folder).results["test"]["test"]["accuracy"]


def table(points: Sequence[Point]) -> list[dict[str, object]]:
    """A row for each number of examples: the mean over seeds of each way, with an interval."""
    rows: list[dict[str, object]] = []
    for examples in sorted({point.examples for point in points}):
        row: dict[str, object] = {"examples": examples}
        for way in (TUNING, PROBE, IN_CONTEXT):
            row[way] = mean_of(points, way, examples)
        rows.append(row)
    return rows


def mean_of(points: Sequence[Point], way: str, examples: int) -> Interval | None:
    found = [point.accuracy for point in points if point.way == way and point.examples == examples]
    return interval(found) if found else None


def overtaken(points: Sequence[Point]) -> int | None:
    """From how many examples on fine-tuning is better than the best that prompts came to; None: never."""
    counts = {point.examples for point in points if point.way == IN_CONTEXT}
    means = [found.mean for count in counts if (found := mean_of(points, IN_CONTEXT, count))]
    best, answer = max(means, default=0.0), None
    for examples in sorted({point.examples for point in points if point.way == TUNING}, reverse=True):
        found = mean_of(points, TUNING, examples)
        if found is None or found.mean <= best:
            break
        answer = examples
    return answer


def curves(points: Sequence[Point]) -> dict[str, list[Curve]]:
    """Of each way, a curve for each seed."""
    found: dict[str, list[Curve]] = {}
    for way in dict.fromkeys(point.way for point in points):
        own = [point for point in points if point.way == way]
        found[way] = [
            sorted((point.examples, point.accuracy) for point in own if point.seed == seed)
            for seed in sorted({point.seed for point in own})
        ]
    return found


def keep(folder: Path, points: Sequence[Point]) -> None:
    write_whole(folder / RESULT, json.dumps([asdict(point) for point in points], indent=2))
