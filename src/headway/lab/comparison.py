"""What came of a comparison: a row for each variant, its difference from the first one, and the curves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headway.lab.plot import Picture
from headway.lab.statistics import Difference, Interval, Span, interval, paired_difference, paired_p, span_of
from headway.metrics import gain, worst
from headway.metrics.items import Items
from headway.metrics.table import Table
from headway.runs.run import Run, count_parameters
from headway.tasks.abilities import can, need
from headway.tasks.text_streams import HasContext
from headway.training.loop import Metrics
from headway.training.metrics_log import METRICS, read_records


@dataclass(frozen=True)
class Row:
    """The results of a variant over its seeds."""

    variant: str
    parameters: int
    diverged: int  # number of runs that diverged; they are in none of the means
    seconds: Interval | None
    score: str  # the main test metric
    watched: str  # the main validation metric
    scores: dict[str, dict[str, Interval]]  # test set -> metric -> mean over seeds
    curves: list[list[tuple[int, float]]]  # for each seed: steps, and the worst validation set's score
    difference: (
        Difference | None
    )  # between its accuracy and the first row's, over the examples that both were tested on
    p: float | None  # p-value of a paired test of that
    reached: list[float]  # seconds until each seed reached the wanted score, for those that did
    over_items: dict[str, Span] = field(default_factory=dict)  # of its score on each test set

    is_baseline: bool = False

    def cells(self, name: str, score: str, has_spans: bool) -> list[object]:
        """Of a test set: the score, and the interval of it over test items."""
        mean = self.scores[name][score] if name in self.scores and score in self.scores[name] else None
        span = self.over_items.get(name)
        return [mean, *(["" if span is None else f"{span.low:.4f} to {span.high:.4f}"] * has_spans)]


@dataclass(frozen=True)
class Comparison:
    folder: Path
    rows: list[Row]
    picture: Picture
    reach: float | None = None  # the score whose time is reported
    measured: Sequence[str] = ()  # on which tokens and with how much context, where that matters

    def table(self) -> Table:
        """A row for each variant; the last columns are the difference of its accuracy from the first row's, with its
        interval, and the p-value of an exact paired test."""
        score, has_spans = self.rows[0].score, self.has_baselines
        sets = list(dict.fromkeys(name for row in self.rows for name in row.scores))
        timed = [] if self.reach is None else [f"seconds to {self.reach:g}"]
        return Table(
            [
                "variant",
                *(title for name in sets for title in (f"{name} {score}", *["its 95 % interval"] * has_spans)),
                *("parameters", "seconds", *timed, "difference", "p"),
            ],
            [
                (
                    f"{row.variant} ({row.diverged} diverged)" if row.diverged else row.variant,
                    *(cell for name in sets for cell in row.cells(name, score, has_spans)),
                    row.parameters,
                    None if row.seconds is None else f"{row.seconds.mean:.1f}",
                    *([] if self.reach is None else [mean_time(row.reached, len(row.curves))]),
                    "" if row.difference is None else str(row.difference),
                    "" if row.p is None else f"{row.p:.2g}" if row.p > 1e-15 else "< 1e-15",
                )
                for row in self.rows
            ],
        )

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    @property
    def has_baselines(self) -> bool:
        return any(row.is_baseline for row in self.rows)


def mean_time(seconds: list[float], runs: int) -> str:
    if not seconds:
        return "never"
    mean = f"{sum(seconds) / len(seconds):.1f}"
    return mean if len(seconds) == runs else f"{mean} ({len(seconds)} of {runs} runs)"


def shared_context(runs: Iterable[Run]) -> int | None:
    """The shortest context, if the runs have different ones: all are measured with it, on the same tokens."""
    tasks = [run.task for run in runs]
    if not all(can(task, HasContext) for task in tasks):
        return None
    contexts = {(own.context_length, own.stride) for own in (need(task, HasContext) for task in tasks)}
    return min(contexts)[0] if len(contexts) > 1 else None


def about_contexts(by_variant: Mapping[str, list[Run]], context: int | None) -> list[str]:
    """On which tokens the variants were measured, and with how much context; one line if it is the same for all."""
    tasks = {name: runs[0].task for name, runs in by_variant.items()}
    abouts = {
        name: need(task, HasContext).about_context(context) for name, task in tasks.items() if can(task, HasContext)
    }
    if not abouts:
        return []
    curves = [] if context is None else ["the curves show each variant in its own context"]
    if len(set(abouts.values())) == 1 and len(abouts) == len(tasks):
        return [f"all measured on {next(iter(abouts.values()))}", *curves]
    return [*(f"{name}: measured on {about}" for name, about in abouts.items()), *curves]


def metrics_in_context(run: Run, context: int | None) -> Metrics:
    """The results of a run; or, with a context, those that it has with it."""
    if context is None:
        return run.results["test"]
    sets = need(run.task, HasContext).sets_in_context(context)
    return {name: run.task.measure(run.network, data) for name, data in sets.items()}


def summarise(by_variant: Mapping[str, list[Run]], reach: float | None = None, context: int | None = None) -> list[Row]:
    """A row for each variant, which has a run for each seed."""
    baseline = next(iter(by_variant.values()))
    return [
        summarise_variant(name, runs, None if runs is baseline else differences(baseline, runs), reach, context)
        for name, runs in by_variant.items()
    ]


def summarise_variant(
    name: str, runs: list[Run], paired: np.ndarray | None, reach: float | None, context: int | None
) -> Row:
    task, done = runs[0].task, [run for run in runs if run.is_done]
    results, watched = [run.results for run in done], task.validation_metrics()[-1]
    tests = [metrics_in_context(run, context) for run in done]
    scores = {
        test: {metric: interval([metrics[test][metric] for metrics in tests]) for metric in task.metric_names}
        for test in (tests[0] if tests else ())
    }
    seconds = interval([result["seconds"] for result in results]) if results else None
    curves = [curve(run, watched) for run in done]
    reached = [] if reach is None else [time for run in done if (time := time_to(run, watched, reach)) is not None]
    diverged = len(runs) - len(done)
    difference, p = (None, None) if paired is None else (paired_difference(paired), paired_p(paired))
    names = task.metric_names[-1], watched
    spans = spans_of([items_in(run) for run in done])
    return Row(name, count_parameters(task), diverged, seconds, *names, scores, curves, difference, p, reached, spans)


def items_in(run: Run) -> dict[str, Items]:
    """The right and wrong answers on each test set; none if the task does not classify."""
    return {name: Items.of_values("accuracy", own.right) for name, own in (run.predictions() or {}).items()}


def spans_of(by_seed: Sequence[Mapping[str, Items]]) -> dict[str, Span]:
    """Of the mean over seeds, each of which has seen the same number of items."""
    names = by_seed[0] if by_seed else ()
    return {name: span for name in names if (span := span_of([own[name] for own in by_seed])) is not None}


def differences(first: Sequence[Run], second: Sequence[Run]) -> np.ndarray | None:
    """How much better the second variant is than the first on each example that both were tested on.

    If all seeds have the same test set, an example counts once, with its mean over the seeds.
    """
    by_set: dict[str, list[np.ndarray]] = {}
    for one, other in zip(first, second, strict=True):
        left, right = one.predictions() or {}, other.predictions() or {}
        for name in left:
            if name in right and left[name].key == right[name].key:
                by_set.setdefault(left[name].key, []).append(right[name].right * 1.0 - left[name].right)
    return np.concatenate([np.mean(each, axis=0) for each in by_set.values()]) if by_set else None


def curve(run: Run, score: str) -> list[tuple[int, float]]:
    records = read_records(run.folder / METRICS)
    return [(record["step"], worst(score, record["validation"])) for record in records if "validation" in record]


def time_to(run: Run, score: str, value: float) -> float | None:
    """Seconds of training until the validation score first reached this value."""
    for record in read_records(run.folder / METRICS):
        if "validation" in record and gain(score, worst(score, record["validation"]), value) >= 0:
            return record["seconds"]
    return None
