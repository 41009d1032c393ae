"""Three ways to use a pre-trained run with few labels: fine-tuning, a linear probe, and examples in a prompt."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from headway import recipes
from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.data.files import Progress, silent
from headway.data.samplers import in_turns
from headway.data.storage import write_whole
from headway.lab.compare import Entrant
from headway.lab.in_context import PromptedClassifier, Shots
from headway.lab.plot import Curve, Picture, draw, plot_curves
from headway.lab.statistics import Interval, interval
from headway.metrics.table import Table
from headway.runs.pipeline import Reporter
from headway.runs.run import Run
from headway.tasks.classify import Classify

RECIPE = "adapt"
TUNING, PROBE, IN_CONTEXT = "fine-tuning", "linear probe", "in context"
WAYS = {  # overrides of the recipe
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
class Adaptation:
    folder: Path
    points: list[Point]
    picture: Picture
    notes: list[str]

    def table(self) -> Table:
        """A row for each number of examples: the mean accuracy of each way over seeds, with its interval."""
        sizes = sorted({point.examples for point in self.points})
        ways = (TUNING, PROBE, IN_CONTEXT)
        rows = [[size, *(mean_of(self.points, way, size) for way in ways)] for size in sizes]
        return Table(["examples", *ways], rows)

    @property
    def compares_prompts(self) -> bool:
        return {TUNING, IN_CONTEXT} <= {point.way for point in self.points}

    def overtaken(self) -> int | None:
        """The number of examples from which on fine-tuning is better than the best prompt; None: never."""
        counts = {point.examples for point in self.points if point.way == IN_CONTEXT}
        means = [mean.mean for count in counts if (mean := mean_of(self.points, IN_CONTEXT, count))]
        best, answer = max(means, default=0.0), None
        for examples in sorted({point.examples for point in self.points if point.way == TUNING}, reverse=True):
            tuned = mean_of(self.points, TUNING, examples)
            if tuned is None or tuned.mean <= best:
                break
            answer = examples
        return answer

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclass(frozen=True)
class Study:
    run: Run
    overrides: tuple[str, ...]  # of the recipe adapt
    sizes: tuple[int, ...]  # numbers of examples to train on
    shots: tuple[int, ...]  # numbers of examples in a prompt
    seeds: int
    tests: int  # number of test texts for prompts
    names: tuple[str, ...]  # words for the labels in prompts, in their order; empty: the labels themselves
    folder: Path

    def carry_out(self, reporter: Reporter) -> Adaptation:
        """Try all ways; the points are saved as adaptation.json, the curves as adaptation.png."""
        study, notes = self.without_missing_examples()
        prompts, more = study.prompted(reporter)
        points = [*prompts, *study.trained(reporter)]
        write_whole(self.folder / RESULT, json.dumps([asdict(point) for point in points], indent=2))
        path, labels = self.folder / "adaptation.png", ("labelled examples", "accuracy")
        picture = draw(path, plot_curves, curves(points), *labels, log_x=True)
        return Adaptation(self.folder, points, picture, [*notes, *more, *picture.notes])

    def without_missing_examples(self) -> "tuple[Study, list[str]]":
        """Without the sizes that exceed the number of labelled texts."""
        available = int(self.task(self.all_seeds()[0]).parts["train"].sum())
        sizes = tuple(size for size in self.sizes if size <= available)
        if self.sizes and not sizes:
            few = f"there are {available:,} to train on, fewer than {min(self.sizes):,}"
            raise Problem(f"--examples: {few}: name fewer")
        left_out = f"sizes above {available:,} are skipped: there are no more examples to train on"
        return replace(self, sizes=sizes), [left_out] if len(sizes) < len(self.sizes) else []

    def recipe(self, *overrides: str) -> Recipe:
        return recipes.load(RECIPE, [f"start={self.run.folder}", *self.overrides, *overrides])

    def task(self, seed: int) -> Classify:
        task = Classify(self.recipe(f"train.seed={seed}"))
        task.prepare()
        return task

    def all_seeds(self) -> range:
        first = self.recipe().train.seed
        return range(first, first + self.seeds)

    def trained(self, reporter: Reporter) -> list[Point]:
        """Fine-tuning and linear probes."""
        points, entered = [], list(self.entrants())
        for number, (point, entrant) in enumerate(entered, start=1):
            outcome = entrant.train(reporter)
            accuracy = Run(entrant.folder).results["test"]["test"]["accuracy"]
            points.append(replace(point, accuracy=accuracy))
            reporter.say(f"{number}/{len(entered)}  {entrant.folder.name}: {outcome}")
        return points

    def entrants(self) -> Iterator[tuple[Point, Entrant]]:
        """The runs to train, with points that have no accuracy yet."""
        for seed in self.all_seeds():
            for examples in self.sizes:
                for way, own in WAYS.items():
                    recipe = self.recipe(f"train.seed={seed}", f"data.examples={examples}", *own)
                    folder = self.folder / f"{way.replace(' ', '-')}_{examples}_seed={seed}"
                    yield Point(way, examples, seed, float("nan")), Entrant(way, recipe, folder)

    def prompted(self, reporter: Reporter) -> tuple[list[Point], list[str]]:
        """Prompts, if the run can read them: if not, the other ways are still worth trying."""
        words = self.label_words()
        if not self.shots:
            return [], []
        try:
            classifier = PromptedClassifier(self.run, words)
        except Problem as problem:
            if self.names:
                raise
            return [], [f"no prompts: {problem}"]
        notes = []
        if max(self.shots) > classifier.most_shots:
            window = f"the model reads {classifier.window} tokens"
            notes.append(f"prompts of more than {classifier.most_shots} examples are skipped: {window}")
        with reporter.reading() as shown:
            return list(self.prompt_points(classifier, shown)), notes

    def label_words(self) -> list[str]:
        task = self.task(self.all_seeds()[0])
        if self.names and len(self.names) != len(task.labels):
            labels = f"{len(task.labels)} labels ({', '.join(task.labels)})"
            raise Problem(f"there are {labels} and {len(self.names)} words for them")
        return list(self.names) or task.labels

    def prompt_points(self, classifier: PromptedClassifier, progress: Progress = silent) -> Iterator[Point]:
        for seed in self.all_seeds():
            splits = self.task(seed).splits()
            train, test = splits.train, splits.test["test"]
            rows = np.random.default_rng(0).permutation(len(test))[: self.tests].tolist()
            for count in (count for count in self.shots if count <= classifier.most_shots):
                chosen = balanced(train.labels, count, seed)
                accuracy = classifier.accuracy(test, rows, Shots.of(train, chosen), progress)
                yield Point(IN_CONTEXT, count, seed, accuracy)


def balanced(labels: np.ndarray, count: int, seed: int) -> list[int]:
    """``count`` examples with balanced classes, in a random order."""
    random = np.random.default_rng([seed, count])
    order = random.permutation(len(labels))
    return random.permutation(in_turns(order, labels[order])[:count]).tolist()


def mean_of(points: Sequence[Point], way: str, examples: int) -> Interval | None:
    values = [point.accuracy for point in points if point.way == way and point.examples == examples]
    return interval(values) if values else None


def curves(points: Sequence[Point]) -> dict[str, list[Curve]]:
    """For each way, a curve for each seed."""
    by_way: dict[str, list[Curve]] = {}
    for way in dict.fromkeys(point.way for point in points):
        own = [point for point in points if point.way == way]
        by_way[way] = [
            sorted((point.examples, point.accuracy) for point in own if point.seed == seed)
            for seed in sorted({point.seed for point in own})
        ]
    return by_way
