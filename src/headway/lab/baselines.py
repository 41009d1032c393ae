"""Baselines beside a network: each is trained once for a split and kept in the cache, and the best of them is compared
with the network on the same items of the test sets."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from headway.data.cache import cache_folder, kept, key_of
from headway.data.files import Progress, silent
from headway.data.storage import write_array
from headway.lab.comparison import Row, spans_of
from headway.lab.statistics import Interval, Paired, interval, paired
from headway.metrics import gain
from headway.metrics.items import Items
from headway.metrics.table import Table
from headway.runs.run import Run
from headway.tasks import Task
from headway.tasks.abilities import need
from headway.tasks.baselines import Baseline, HasBaselines

VERSION = 1  # raise it whenever a baseline would say something else of the same data
SCORES = "scores.json"
SIGNIFICANT = 0.05
MOST_SETS = 2  # of which all metrics are shown
NETWORK = "this network"


@dataclass(frozen=True)
class BaselineRow:
    """A baseline, or the network beside them."""

    name: str
    metrics: dict[str, dict[str, float]]  # by test set
    items: dict[str, Items]  # of each test set
    seconds: float | None = None  # to train and measure it
    parameters: int | None = None
    about: str = ""  # what was chosen on validation data

    def score(self, metric: str) -> float:
        """The mean over the test sets."""
        return float(np.mean([own[metric] for own in self.metrics.values()]))


@dataclass(frozen=True)
class Baselines:
    """Baselines on the test sets of a task, best last; with a network beside them if there is one."""

    metric: str
    rows: list[BaselineRow]
    network: BaselineRow | None = None

    @property
    def best(self) -> BaselineRow:
        return self.rows[-1]

    @cached_property
    def test(self) -> Paired | None:
        """The network beside the best baseline: a positive difference is in its favour. None: there is nothing to
        compare."""
        if self.network is None:
            return None
        pairs = [(self.network.items[name], own) for name, own in self.best.items.items() if name in self.network.items]
        return paired(pairs) if pairs and all(len(one) == len(other) for one, other in pairs) else None

    @property
    def network_is_better(self) -> bool | None:
        """Whether it is, by more than chance; None: it is not known."""
        if self.network is None:
            return None
        if self.test is not None and self.test.p is not None:
            return self.test.difference.mean > 0 and self.test.p < SIGNIFICANT
        return gain(self.metric, self.network.score(self.metric), self.best.score(self.metric)) > 0

    @property
    def verdict(self) -> str:
        """One line about the network; empty if there is none."""
        if self.network is None:
            return ""
        sets = ", ".join(self.best.metrics)
        scores = [f"{row.score(self.metric):.4f}" for row in (self.network, self.best)]
        beside = f"{self.metric} {scores[0]} beside {scores[1]} on {sets}{self.about_test}"
        if self.network_is_better:
            return f"better than every baseline, of which the best is {self.best.name}: {beside}"
        is_worse = self.test is not None and self.test.p is not None and self.test.p < SIGNIFICANT
        said = "worse than" if is_worse else "not better than"
        return f"{said} a simple baseline, {self.best.name}: {beside}"

    @property
    def about_test(self) -> str:
        if self.test is None:
            return ""
        if self.test.p is None:
            return ", which are too few items for a test"
        return f" (difference {self.test.difference}, p {shown(self.test.p)})"

    def table(self) -> Table:
        """A row for each baseline, and the network last."""
        listed = [*self.rows, *([self.network] if self.network else [])]
        names = list(dict.fromkeys(metric for row in listed for own in row.metrics.values() for metric in own))
        sets = list(dict.fromkeys(name for row in listed for name in row.metrics))
        names = [self.metric] if len(sets) > MOST_SETS else names
        columns = [
            (each, name) for each in sets for name in names if any(name in row.metrics[each] for row in self.rows)
        ]
        return Table(
            ["model", *(f"{name} {metric}" for name, metric in columns), "parameters", "seconds"],
            [
                (
                    f"{row.name} ({row.about})" if row.about else row.name,
                    *(row.metrics.get(name, {}).get(metric) for name, metric in columns),
                    row.parameters,
                    None if row.seconds is None else f"{row.seconds:.1f}",
                )
                for row in listed
            ],
        )

    def summary(self) -> dict[str, Any]:
        """As JSON has it."""
        listed = [*self.rows, *([self.network] if self.network else [])]
        rows = [
            {
                "name": row.name,
                "test": row.metrics,
                "seconds": row.seconds,
                "parameters": row.parameters,
                "about": row.about,
            }
            for row in listed
        ]
        verdict = {"verdict": self.verdict, "better": self.network_is_better} if self.network else {}
        tested = {"difference": self.test.difference._asdict(), "p": self.test.p} if self.test else {}
        return {"metric": self.metric, "models": rows, **verdict, **tested}

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def shown(p: float) -> str:
    return f"{p:.2g}" if p > 1e-15 else "< 1e-15"


def baselines_of(task: Task, tests: Mapping[str, Any] | None = None, progress: Progress = silent) -> list[BaselineRow]:
    """Of a task with its data, on its test sets or on others; the worst comes first."""
    own = need(task, HasBaselines)
    sets = task.splits(progress).test if tests is None else tests
    folder = kept("baselines", key_in_cache(own, sets), lambda new: write(new, own, sets, progress))
    rows = read(folder, own.compared_by)
    return sorted(rows, key=lambda row: gain(own.compared_by, row.score(own.compared_by), 0.0))


def key_in_cache(own: HasBaselines, sets: Mapping[str, Any]) -> str:
    return key_of(split=own.baseline_key(sets), kind=type(own).__name__, version=VERSION)


def write(folder: Path, own: HasBaselines, sets: Mapping[str, Any], progress: Progress) -> None:
    prepared: dict[Any, float] = {}  # seconds of what several of them share
    listed, rows = own.baselines(sets), []
    for number, each in enumerate(listed):
        progress(f"training a baseline: {each.name}", number / len(listed))
        if each.prepare not in prepared:
            began = perf_counter()
            each.prepare()
            prepared[each.prepare] = perf_counter() - began
        rows.append(measured(each, prepared[each.prepare], folder, number))
        progress(f"training a baseline: {each.name}", 1.0)
    (folder / SCORES).write_text(json.dumps(rows, indent=1), encoding="utf-8")


def measured(baseline: Baseline, seconds: float, folder: Path, number: int) -> dict[str, Any]:
    began = perf_counter()
    result = baseline.measure()
    for place, scored in enumerate(result.sets.values()):
        write_array(folder / f"{number}-{place}.npy", scored.items.sums)
    return {
        "name": baseline.name,
        "metrics": {name: scored.all_metrics for name, scored in result.sets.items()},
        "seconds": round(seconds + perf_counter() - began, 2),
        "parameters": result.parameters,
        "about": result.about,
    }


def read(folder: Path, metric: str) -> list[BaselineRow]:
    rows = []
    for number, row in enumerate(json.loads((folder / SCORES).read_text(encoding="utf-8"))):
        arrays = [np.load(folder / f"{number}-{place}.npy", allow_pickle=False) for place in range(len(row["metrics"]))]
        items = {name: Items(metric, sums) for name, sums in zip(row["metrics"], arrays, strict=True)}
        rows.append(BaselineRow(row["name"], row["metrics"], items, row["seconds"], row["parameters"], row["about"]))
    return rows


def beside(run: Run, tests: Mapping[str, Any] | None = None, progress: Progress = silent) -> Baselines:
    """The baselines of a trained run's task, and its network on the same items."""
    own = need(run.task, HasBaselines)
    rows = baselines_of(run.task, tests, progress)
    sets = run.task.splits(progress).test if tests is None else tests
    return Baselines(own.compared_by, rows, network_row(run, own, sets, is_own=tests is None))


def network_row(run: Run, own: HasBaselines, sets: Mapping[str, Any], is_own: bool) -> BaselineRow:
    saved = (run.predictions() if is_own and run.is_done else None) or {}
    items = {
        name: Items.of_values(own.compared_by, saved[name].right) if name in saved else own.items_of(run.network, data)
        for name, data in sets.items()
    }
    results = run.results if is_own and run.is_done else {}
    metrics = {
        name: results.get("test", {}).get(name, {}) | {own.compared_by: each.score} for name, each in items.items()
    }
    return BaselineRow(NETWORK, metrics, items, results.get("seconds"), results.get("parameters"))


def baselines(task: Task, progress: Progress = silent) -> Baselines:
    """Of a task with its data, without a network."""
    return Baselines(need(task, HasBaselines).compared_by, baselines_of(task, None, progress))


def baseline_rows(runs: Sequence[Run], first: Row, progress: Progress = silent) -> list[Row]:
    """Of a comparison: each baseline over the splits of these runs, the first variant's, and beside it."""
    done = [run for run in runs if run.is_done]
    if not done:
        return []
    by_split: dict[str, list[Baselines]] = {}
    for run in done:
        tests = run.task.splits(progress).test
        key = key_in_cache(need(run.task, HasBaselines), tests)
        by_split.setdefault(key, []).append(beside(run, None, progress))
    networks = [mean_items([each.network for each in same if each.network]) for same in by_split.values()]
    studies = [{row.name: row for row in same[0].rows} for same in by_split.values()]
    rows = [[own[name] for own in studies if name in own] for name in studies[0]]
    return [baseline_row(own, networks, first) for own in rows if len(own) == len(networks)]


def mean_items(networks: Sequence[BaselineRow]) -> dict[str, Items]:
    """Of networks with several seeds on one split: an item counts once."""
    sets = networks[0].items
    return {
        name: Items(own.metric, np.mean([each.items[name].sums for each in networks], axis=0))
        for name, own in sets.items()
    }


def baseline_row(own: Sequence[BaselineRow], networks: Sequence[Mapping[str, Items]], first: Row) -> Row:
    """A baseline over splits, if they differ from seed to seed, and the networks that it is compared with."""
    scores = {
        name: {metric: mean_of([row.metrics[name][metric] for row in own]) for metric in metrics}
        for name, metrics in own[0].metrics.items()
    }
    pairs = [
        (items, network[name])
        for row, network in zip(own, networks, strict=True)
        for name, items in row.items.items()
        if len(items) == len(network[name])
    ]
    tested = paired(pairs) if pairs else None
    return Row(
        f"{own[0].name} ({own[0].about})" if own[0].about else own[0].name,
        own[0].parameters or 0,
        diverged=0,
        seconds=interval([row.seconds or 0.0 for row in own]),
        score=first.score,
        watched=first.watched,
        scores=scores,
        curves=[],
        difference=tested and tested.difference,
        p=tested and tested.p,
        reached=[],
        over_items=spans_of([row.items for row in own]),
        is_baseline=True,
    )


def mean_of(values: Sequence[float]) -> Interval:
    """Data that do not depend on the seed have one value."""
    return interval(values if len(set(values)) > 1 else values[:1])


def seconds_to_train(task: Task, progress: Progress = silent) -> float:
    """About how long it takes; 0 if they were trained before."""
    own, tests = need(task, HasBaselines), task.splits(progress).test
    is_known = (cache_folder() / "baselines" / key_in_cache(own, tests)).is_dir()
    return 0.0 if is_known else own.baseline_seconds(tests)
