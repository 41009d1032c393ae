"""Forgetting: what a language model gains and loses when its training goes on with other languages.

For several shares of replay, a run is continued on texts in old and new languages; beside them, a new model is trained
on as many tokens of the new ones. All are measured on the same held-out texts in bits per byte, which do not depend on
how a text is split into tokens.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.data.files import Progress
from headway.data.storage import write_whole
from headway.lab.compare import Entrant, refuse_processes, train_each
from headway.lab.forgetting_report import (
    NEW_MEAN,
    OLD_MEAN,
    Forgetting,
    Gain,
    LanguageRow,
    crossing,
    mean_curve,
    plot_forgetting,
)
from headway.lab.plot import Curve, draw
from headway.lab.repeating import seeded, usual_evaluations
from headway.lab.statistics import interval
from headway.runs.pipeline import Reporter
from headway.runs.run import RECIPE, Run
from headway.tasks import Task
from headway.tasks.abilities import ReadsTokens, Tokenizes, can, need
from headway.tasks.file_task import held_out
from headway.tasks.multilingual import LEFT_OUT, NEW, OLD, VALIDATION, HasLanguages
from headway.text.vocabulary import SPECIALS
from headway.training.metrics_log import METRICS, read_records

SCORE = "bits_per_byte"
USUAL = (0.0, 0.05, 0.1, 0.2)  # shares of replay
SCRATCH, RESULT = "from scratch", "forgetting.json"
HELD_OUT = {"validation": "0.1", "test": "none"}  # instead of files that the run has for that
SAME_PIECES = "data.extend_vocabulary=none"
SETS = {NEW: (NEW, VALIDATION), OLD: (OLD, LEFT_OUT)}  # validation sets, and what they are called from scratch


@dataclass(frozen=True)
class Study:
    run: Run
    overrides: tuple[str, ...]  # of the run's own recipe
    shares: tuple[float, ...]  # of replay
    seeds: int
    folder: Path

    def carry_out(self, reporter: Reporter) -> Forgetting:
        """The results are saved as forgetting.json, the curves and bars as forgetting.png."""
        self.refuse_unmeasured()
        with reporter.reading() as show:
            plain = self.task(show, SAME_PIECES)
            entered = list(self.entrants(self.task(show)))
        known, notes = need(plain, HasLanguages).known, list(self.notes(plain))
        before, begins = self.measure_before(plain)
        ways = train_each(entered, reporter)
        a_step = need(plain, ReadsTokens).tokens_of_step()
        budget = plain.recipe.train.steps * a_step
        rows = language_rows(before, known, ways)
        curves = {way: curves_of(runs, a_step, begins if way in self.replays else {}) for way, runs in ways.items()}
        gains = [gain_of(way, share, rows, curves, budget) for way, share in self.replays.items()]
        content = {"budget": budget, "gains": gains, "rows": rows, "curves": curves}
        write_whole(self.folder / RESULT, json.dumps(content, indent=2, ensure_ascii=False, default=asdict))
        picture = draw(self.folder / "forgetting.png", plot_forgetting, rows, curves, list(self.replays))
        return Forgetting(self.folder, budget, rows, gains, curves, picture, [*notes, *picture.notes])

    def refuse_unmeasured(self) -> None:
        task, folder = self.run.task, self.run.folder
        if SCORE not in task.metric_names:
            raise Problem(
                f"{folder} is a run of {task.recipe.task}, which has no bits per byte: name a run of language"
            )
        if not can(task, HasLanguages):
            language = "data.language, with a column of the file or with files"
            raise Problem(f"{folder} does not tell languages apart: train it with {language}, even if it has only one")
        if not self.shares or not all(0 <= share < 1 for share in self.shares):
            raise Problem(f"--replay: {self.shares} are no shares: name numbers from 0 to below 1, such as 0,0.05,0.1")

    # --- the trainings

    @property
    def path(self) -> Path:
        return self.run.folder / RECIPE

    @cached_property
    def shared(self) -> list[str]:
        """The overrides that all trainings have in common."""
        own_files = [use for use, (_, share) in held_out(self.run.recipe.data).items() if share is None]
        own = [SAME_PIECES, *(f"data.{use}={HELD_OUT[use]}" for use in own_files), *self.overrides]
        spec = recipes.load(self.path, [*own, "start=none", "data.replay=none", SAME_PIECES]).train
        refuse_processes(spec)
        if spec.epochs is not None:
            raise BadSetting("train.epochs", "the trainings have the same number of tokens: set train.steps instead")
        return [*usual_evaluations(spec.steps), *own]

    @property
    def replays(self) -> dict[str, float]:
        """The ways to go on, with their shares of replay."""
        return {f"replay {share:.4g}": share for share in self.shares}

    def continued(self, share: float) -> list[str]:
        return [*self.shared, f"start={self.run.folder}", f"data.replay={share!r}"]

    def from_scratch(self, task: Task) -> list[str]:
        """On the languages that are new to the run, in the same proportions; a vocabulary of the same size is learned
        from them."""
        languages, size = need(task, HasLanguages), len(need(task, Tokenizes).tokenizer_of(""))
        shares = {name: each.share for name, each in languages.shares_of_training().items()}
        new = sum(share for name, share in shares.items() if name not in languages.known)
        mixture = ",".join(
            f"{name}={0.0 if name in languages.known else share / new}" for name, share in shares.items()
        )
        own = [f"data.mixture={mixture}", f"data.vocab_size={size - len(SPECIALS)}"]
        return [*self.shared, *own, "start=none", "data.replay=none", SAME_PIECES]

    def entrants(self, task: Task) -> Iterator[Entrant]:
        """The trainings; ``task`` is one that goes on."""
        ways = {way: self.continued(share) for way, share in self.replays.items()}
        ways[SCRATCH] = self.from_scratch(task)
        for number in range(self.seeds):
            for way, overrides in ways.items():
                recipe = seeded(self.path, overrides, number)
                folder = self.folder / f"{way}_seed={recipe.train.seed}".replace(" ", "-")
                yield Entrant(way, recipe, folder)

    # --- before

    def task(self, show: Progress, *more: str) -> Task:
        """A training that goes on, with its data."""
        task = recipes.task(self.path, [*self.continued(self.shares[0]), *more])
        try:
            task.prepare(show)
            need(task, HasLanguages).shares_of_training()
        except BadSetting as bad:
            if bad.key != "data.replay":
                raise
            raise Problem(
                f"{bad.message.partition(':')[0]}: name texts in languages that it knows and in others"
            ) from None
        return task

    def measure_before(self, task: Task) -> tuple[dict[str, float], dict[str, float]]:
        """The score of each language before it goes on, and of each validation set."""
        splits = task.splits()
        by_language = need(task, HasLanguages).measure_languages(self.run.network, next(iter(splits.test.values())))
        sets = {name: task.measure(self.run.network, data)[SCORE] for name, data in splits.validation.items()}
        return {name: metrics[SCORE] for name, metrics in by_language.items()}, sets

    def notes(self, task: Task) -> Iterator[str]:
        """About held-out texts that the run was trained on."""
        try:
            trained = need(self.run.task, HasLanguages).fingerprints("train")
        except Problem as problem:
            yield f"whether held-out texts were trained on before cannot be told: {problem}"
            return
        texts = need(task, HasLanguages).fingerprints("validation")
        if seen := int(np.isin(texts, trained).sum()):
            yield f"{seen:,} of {len(texts):,} held-out texts were in the training data of {self.run.folder}"


def language_rows(
    before: Mapping[str, float], known: frozenset[str], ways: Mapping[str, Sequence[Run]]
) -> list[LanguageRow]:
    """Old languages and their mean, then new ones."""
    after = {
        way: [
            {name: metrics[SCORE] for name, metrics in run.results["languages"].items()} for run in runs if run.is_done
        ]
        for way, runs in ways.items()
    }

    def row(title: str, names: Sequence[str], is_new: bool) -> LanguageRow:
        ends = {way: [mean_of(scores, names) for scores in seeds] for way, seeds in after.items()}
        means = {way: interval(values) for way, values in ends.items() if values}
        return LanguageRow(title, is_new, mean_of(before, names), means)

    rows = []
    for title, is_new in ((OLD_MEAN, False), (NEW_MEAN, True)):
        names = [name for name in before if (name not in known) == is_new]
        rows += [*(row(name, [name], is_new) for name in names), row(title, names, is_new)]
    return rows


def mean_of(scores: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(scores[name] for name in names) / len(names)


def curves_of(runs: Sequence[Run], a_step: int, begins: Mapping[str, float]) -> dict[str, list[Curve]]:
    """By validation set: the score over tokens, for each seed that did not diverge."""
    curves: dict[str, list[Curve]] = {}
    for run in (run for run in runs if run.is_done):
        records = read_records(run.folder / METRICS)
        measured = [(record["step"], record["validation"]) for record in records if "validation" in record]
        for ours, names in SETS.items():
            points = [(step * a_step, sets[name][SCORE]) for step, sets in measured for name in names if name in sets]
            first = [(0, begins[ours])] if ours in begins else []
            curves.setdefault(ours, []).append([*first, *points])
    return curves


def gain_of(
    way: str,
    share: float,
    rows: Sequence[LanguageRow],
    curves: Mapping[str, Mapping[str, Sequence[Curve]]],
    budget: int,
) -> Gain:
    old, new = (next(row for row in rows if row.language == title) for title in (OLD_MEAN, NEW_MEAN))
    continued, scratch = (mean_curve(curves[each].get(NEW, [])) for each in (way, SCRATCH))
    as_good_after = crossing(continued, scratch[-1][1]) if continued and scratch else None
    return Gain(share, new.change(way), old.change(way), as_good_after, budget)
