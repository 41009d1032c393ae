"""Repeating a text: the same number of tokens in training, over one pass of much text or many passes of less.

How often may a text be repeated before more passes are of no use (Muennighoff et al. 2023,
https://arxiv.org/abs/2305.16264)? All runs have the same steps, tokenizer and held-out texts; what a run with more
passes reads is part of what those with fewer passes read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.config.recipe import Recipe
from headway.data.samplers import with_steps
from headway.data.storage import write_whole
from headway.lab.compare import Entrant, refuse_processes, train_each
from headway.lab.comparison import curve
from headway.lab.plot import Curve, Picture, Plot, draw
from headway.lab.statistics import Interval, interval, signed
from headway.metrics import LOWER_IS_BETTER
from headway.metrics.table import Table
from headway.runs.pipeline import Reporter
from headway.runs.run import Run
from headway.tasks import Task
from headway.tasks.abilities import ReadsTokens, need

USUAL = (1, 2, 4, 8, 16, 32)  # passes
RESULT = "repeating.json"
SHORT = 0.9  # of the tokens that one pass of the least repeated text should have


@dataclass(frozen=True)
class Passes:
    """Training with so many passes over a text, over all seeds."""

    passes: int
    tokens: int  # different ones
    score: Interval | None  # on held-out texts, at the end; None: every run diverged
    difference: Interval | None  # from the fewest passes, with the same seed
    lowest: Interval | None  # on the way
    lowest_at: float | None  # passes until then, in the mean over seeds
    curves: list[Curve]  # held-out scores over tokens, for each seed


@dataclass(frozen=True)
class Repeating:
    folder: Path
    budget: int  # tokens in each training
    score: str  # "bits_per_byte"
    rows: list[Passes]
    picture: Picture

    def table(self) -> Table:
        few = self.rows[0].passes
        return Table(
            ["passes", "different tokens", self.score, f"more than with {few}", "lowest", "at pass"],
            [
                (
                    row.passes,
                    row.tokens,
                    row.score,
                    None if row.difference is None else signed(row.difference),
                    row.lowest,
                    None if row.lowest_at is None else f"{row.lowest_at:.1f}",
                )
                for row in self.rows
            ],
        )

    def stops_falling(self) -> int | None:
        """The fewest passes with which the held-out score ends above its lowest value; None: it always falls."""
        return next((row.passes for row in self.rows if row.lowest_at and row.lowest_at < row.passes - 1e-9), None)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def repeat(
    name: str, overrides: Sequence[str], passes: Sequence[int], seeds: int, folder: Path, reporter: Reporter
) -> Repeating:
    """The results are saved as repeating.json, the curves as repeating.png."""
    counts = sorted(set(passes))
    task, steps = prepared(name, overrides, reporter)
    reads = need(task, ReadsTokens)
    a_step = reads.tokens_of_step()
    budget = steps * a_step
    refuse_passes(counts, steps, budget, reads.training_tokens())
    shared = [*usual_evaluations(steps), *overrides, f"train.steps={steps}"]
    entered = [
        Entrant(str(count), recipe, folder / f"passes={count}_seed={recipe.train.seed}")
        for number in range(seeds)
        for count in counts
        for recipe in [seeded(name, [*shared, f"data.max_tokens={budget // count}"], number)]
    ]
    by_passes = {int(title): runs for title, runs in train_each(entered, reporter).items()}
    score = next(each for each in reversed(task.metric_names) if each in LOWER_IS_BETTER)
    rows = list(summarise(by_passes, score, a_step, budget))
    write_whole(folder / RESULT, json.dumps({"budget": budget, "rows": [asdict(row) for row in rows]}, indent=2))
    picture = draw(folder / "repeating.png", plot_repeating, rows, score)
    return Repeating(folder, budget, score, rows, picture)


def prepared(name: str, overrides: Sequence[str], reporter: Reporter) -> tuple[Task, int]:
    """The task with its data, and the number of steps."""
    task = recipes.task(name, overrides)
    need(task, ReadsTokens)
    refuse_processes(task.recipe.train)
    if task.recipe.data.max_tokens is not None:
        raise BadSetting("data.max_tokens", "the study sets it: leave it out")
    with reporter.reading() as show:
        task.prepare(show)
        train = task.splits(show).train
        return task, with_steps(task.recipe.train, train.sampler(task.recipe.train), show).steps


def usual_evaluations(steps: int) -> list[str]:
    """Often enough for a curve; a recipe's own number is for longer trainings."""
    return [f"train.evaluate_every={max(steps // 16, 1)}"]


def seeded(name: str | Path, overrides: Sequence[str], number: int) -> Recipe:
    """With the seed of a study's first, second, ... run."""
    first = recipes.load(name, overrides)
    return first if number == 0 else recipes.load(name, [*overrides, f"train.seed={first.train.seed + number}"])


def refuse_passes(counts: Sequence[int], steps: int, budget: int, available: int) -> None:
    if not counts or counts[0] < 1:
        raise Problem("--passes: name whole numbers from 1 on, such as 1,2,4,8")
    if 2 * counts[-1] > steps:
        raise Problem(f"--passes: {counts[-1]} passes in {steps:,} steps are less than two steps each: train longer")
    if budget // counts[0] * SHORT > available:
        enough = f"--passes from {-(-budget // available)} on, or a smaller train.steps"
        raise Problem(
            f"there are {available:,} tokens to train on, too few for {counts[0]} of {budget:,} in all: set {enough}"
        )


def summarise(by_passes: Mapping[int, Sequence[Run]], score: str, a_step: int, budget: int) -> Iterator[Passes]:
    first: dict[int, float] = {}  # by seed
    for passes, runs in by_passes.items():
        done = [run for run in runs if run.is_done]
        ends = {run.recipe.train.seed: next(iter(run.results["test"].values()))[score] for run in done}
        first = first or ends
        differences = [end - first[seed] for seed, end in ends.items() if seed in first]
        curves: list[Curve] = [[(step * a_step, value) for step, value in curve(run, score)] for run in done]
        best = [min(points, key=lambda point: point[1]) for points in curves]
        yield Passes(
            passes,
            need(runs[0].task, ReadsTokens).training_tokens(),
            interval(list(ends.values())) if ends else None,
            interval(differences) if differences and first is not ends else None,
            interval([value for _, value in best]) if best else None,
            sum(tokens for tokens, _ in best) / len(best) / budget * passes if best else None,
            curves,
        )


def plot_repeating(rows: Sequence[Passes], score: str) -> Plot:
    """Held-out scores over the tokens read, and where they end."""
    plot = Plot((12, 4.5), 1, 2)
    left, right = plot.axes[0]
    for index, row in enumerate(rows):
        for number, points in enumerate(row.curves):
            label = f"{row.passes} × {row.tokens:,} tokens" if number == 0 else None
            left.plot(*zip(*points, strict=True), color=f"C{index}", label=label)
    left.set(xlabel="tokens read", ylabel=f"held-out {score}", xscale="log")
    if left.lines:  # unless every run diverged
        left.legend(fontsize="small", title="passes × different tokens")
    ended = [(row.passes, row.score, row.lowest) for row in rows if row.score and row.lowest]
    passes, ends, lowest = zip(*ended, strict=True) if ended else ((), (), ())
    right.errorbar(
        passes, [end.mean for end in ends], [end.margin or 0 for end in ends], marker="o", label="at the end"
    )
    right.plot(passes, [low.mean for low in lowest], marker=".", linestyle="--", label="lowest on the way")
    right.set(xlabel="passes", ylabel=f"held-out {score}", xscale="log")
    right.set_xticks(passes, [str(count) for count in passes])
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return plot
