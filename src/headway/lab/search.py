"""Search for the smallest network that reaches a goal, with Optuna.

Each trial is a run. Its size is known before training, so networks as large as the smallest solution so far are not
trained at all. A trial is solved when its worst validation set reaches the goal; at the end the smallest solutions are
trained to their last step and evaluated on the test sets, which were not used before.

What is suggested depends on the seed, the number of the suggestion and the trials before it alone: a search that was
killed ends as one that was left alone.
"""

import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals
from typing import Any

import numpy as np

from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.config.json_files import NUMBER, read_json
from headway.config.recipe import Recipe
from headway.config.settings import to_toml
from headway.data.storage import write_whole
from headway.lab.compare import Entrant, Stopped, refuse_processes
from headway.lab.plot import Picture, draw, plot_front
from headway.lab.search_space import DEFAULT_AXES, Axis, Goal
from headway.metrics import worst
from headway.runs.fit import Fit, resume
from headway.runs.run import Run, count_parameters
from headway.training.finite import NotFinite
from headway.training.loop import Metrics
from headway.training.metrics_log import METRICS, read_records

TRIALS = "trials.json"
TRIALS_SHAPE = {
    "searched": int,  # the number of trials that a search ended with, or found no more for
    "suggestions": [dict],  # all of them, those that were not worth a trial included
    "trials": [{"number": int, "words": [str], "parameters": int, "score": NUMBER}],
}
MOST_UNUSED = 500  # unusable suggestions in a row (too large, or tried before) after which the search ends


@dataclass(frozen=True)
class Trial:
    words: list[str]  # overrides
    parameters: int
    score: float  # of the worst validation set
    solved: bool
    folder: str  # inside the folder of the search


@dataclass(frozen=True)
class Confirmed:
    """A solution that was trained to the end and tested."""

    trial: Trial
    test: Metrics
    holds: bool  # whether it reaches the goal on the test sets


@dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    folder: Path
    front: list[Trial]
    confirmed: list[Confirmed]
    metric: str  # of the goal
    picture: Picture


class Search:
    """A search lives in a folder: the same search, opened again, continues."""

    def __init__(self, name: str, overrides: Sequence[str], goal: str, over: Sequence[str], folder: Path):
        self.name, self.overrides, self.folder = name, list(overrides), folder
        task = recipes.task(name, overrides)
        recipe = task.recipe
        refuse_processes(recipe.train)
        self.goal = Goal.parse(goal, task.validation_metrics())
        self.axes = self.find_axes(over)
        self.problem: Problem | None = None  # with the last suggestion that could not be built
        self.interrupted: Signals | None = None
        self.seed, self.study = recipe.train.seed, quiet_optuna().create_study()  # in memory, see ``restore``
        self.searched, self.trained = 0, dict[int, Trial]()  # by number of the suggestion
        folder.mkdir(parents=True, exist_ok=True)
        self.refuse_another_search(recipe)
        if (folder / TRIALS).exists():
            self.restore(read_json(folder / TRIALS, TRIALS_SHAPE))

    def find_axes(self, over: Sequence[str]) -> list[Axis]:
        """The default axes, unless an override fixes them, and those of ``over``; their keys and values are checked."""
        fixed = {override.partition("=")[0] for override in self.overrides}
        asked = {axis.key: axis for axis in map(Axis.parse, over)}
        if both := sorted(fixed & asked.keys()):
            raise Problem(f"{both[0]} is both set and searched over: leave out one of them")
        usual = {axis.key: axis for axis in map(Axis.parse, DEFAULT_AXES) if axis.key not in fixed}
        axes = list((usual | asked).values())
        for axis in axes:
            for value in axis.choices or (axis.low, axis.high):
                try:
                    recipes.load(self.name, [*self.overrides, f"{axis.key}={value}"])
                except BadSetting as bad:  # another key may not fit this value, and may be varied too
                    if axis.key.startswith(bad.key):
                        raise
        return axes

    def refuse_another_search(self, recipe: Recipe) -> None:
        """A folder holds one search: its trials would be wrong in another one."""
        if (self.folder / "journal.log").exists():
            raise Problem(f"{self.folder} holds a search by an earlier version of headway: give another --out")
        path = self.folder / "search.json"
        now = {"recipe": to_toml(recipe), "goal": asdict(self.goal), "axes": [str(axis) for axis in self.axes]}
        if not path.exists():
            write_whole(path, json.dumps(now, indent=2))
        elif read_json(path) != now:
            raise Problem(f"{self.folder} holds another search (see {path}): give another --out")

    def trials(self) -> list[Trial]:
        """The trials trained so far."""
        return list(self.trained.values())

    def restore(self, saved: dict[str, Any]) -> None:
        """Tell the study what it knew when this was saved."""
        scores = {each["number"]: each for each in saved["trials"]}
        self.study.sampler = quiet_optuna().samplers.RandomSampler()  # the values are known
        for number, values in enumerate(saved["suggestions"]):
            self.study.enqueue_trial(values)
            suggestion = self.study.ask()
            words = [axis.suggest(suggestion) for axis in self.axes]
            if number in scores:
                self.tell(suggestion, words, scores[number]["parameters"], scores[number]["score"])
            else:
                self.study.tell(suggestion, state=trial_state().PRUNED)
        self.searched = saved["searched"]

    def save(self) -> None:
        trials = [
            {"number": number, "words": trial.words, "parameters": trial.parameters, "score": trial.score}
            for number, trial in self.trained.items()
        ]
        suggestions = [trial.params for trial in self.study.get_trials(deepcopy=False)]
        saved = {"searched": self.searched, "suggestions": suggestions, "trials": trials}
        write_whole(self.folder / TRIALS, json.dumps(saved))

    def tell(self, suggestion: Any, words: list[str], parameters: int, score: float) -> Trial:
        shortfall = self.goal.shortfall(score)
        suggestion.set_constraint("goal", shortfall)  # solutions rank before everything else
        self.study.tell(suggestion, parameters)
        trial = Trial(words, parameters, score, shortfall < 0, folder_of(suggestion))
        self.trained[suggestion.number] = trial
        return trial

    def solutions(self) -> list[Trial]:
        """Trials that reached the goal and did not fail on the test sets, smallest first."""
        solved = [trial for trial in self.trials() if trial.solved and self.holds(trial) is not False]
        return sorted(solved, key=lambda trial: trial.parameters)

    def holds(self, trial: Trial) -> bool | None:
        """Whether the goal is reached on the test sets; None: not tested yet."""
        run = Run(self.folder / trial.folder)
        return self.goal.shortfall(worst(self.goal.metric, run.results["test"])) < 0 if run.is_done else None

    def front(self) -> list[Trial]:
        """The Pareto front: trials that score better than everything of their size or smaller, smallest first."""
        best: list[Trial] = []
        for trial in sorted(self.trials(), key=lambda trial: (trial.parameters, self.goal.shortfall(trial.score))):
            if not best or self.goal.shortfall(trial.score) < self.goal.shortfall(best[-1].score):
                best.append(trial)
        return best

    def run(self, count: int) -> Iterator[Trial]:
        """Train until there are ``count`` trials, earlier ones included, or nothing new is left to try."""
        unused = 0
        while len(self.trained) < count > self.searched and unused < MOST_UNUSED:
            suggestion = self.ask()
            words = [axis.suggest(suggestion) for axis in self.axes]
            parameters = self.size(words)
            if parameters is None or not self.is_worth_training(words, parameters):
                unused += 1
                self.study.tell(suggestion, state=trial_state().PRUNED)
                continue
            unused = 0
            score = self.train(words, self.folder / folder_of(suggestion))
            if self.interrupted:
                return
            trial = self.tell(suggestion, words, parameters, score)
            self.save()
            yield trial
        if not self.trained:
            raise Problem(f"no network could be built in {MOST_UNUSED} attempts: {self.problem}")
        self.searched = max(count, self.searched)  # what is tested from now on has no influence on these trials
        self.save()

    def ask(self) -> Any:
        """The next suggestion; its random numbers do not depend on how often the search was stopped."""
        seeds = np.random.SeedSequence([self.seed, len(self.study.get_trials(deepcopy=False))])
        self.study.sampler = quiet_optuna().samplers.TPESampler(
            seed=int(seeds.generate_state(1)[0]), n_startup_trials=20, multivariate=True
        )
        return self.study.ask()

    def size(self, overrides: list[str]) -> int | None:
        """The number of parameters; None if the overrides do not fit together."""
        try:
            task = recipes.task(self.name, [*self.overrides, *overrides])
        except Problem as problem:
            self.problem = problem
            return None
        task.prepare()
        return count_parameters(task)

    def is_worth_training(self, overrides: list[str], parameters: int) -> bool:
        solutions = self.solutions()
        is_smaller = not solutions or parameters < solutions[0].parameters
        return is_smaller and all(trial.words != overrides for trial in self.trials())

    def train(self, overrides: list[str], folder: Path) -> float:
        """Train until the validation sets reach the goal, or to the end; returns the last score. A trial that was
        killed goes on from its checkpoint."""
        fit = Entrant(folder.name, recipes.load(self.name, [*self.overrides, *overrides]), folder).fit()
        if self.goal.shortfall(self.last_score(fit)) < 0:
            fit.lock.release()  # as after the last step: it is tested later
        else:
            with closing(fit.steps()) as steps, suppress(NotFinite):
                for step in steps:
                    if step.validation and self.goal.shortfall(worst(self.goal.metric, step.validation)) < 0:
                        break
        self.interrupted = fit.interrupted
        return self.last_score(fit)

    def last_score(self, fit: Fit) -> float:
        scores = [
            worst(self.goal.metric, record["validation"])
            for record in read_records(fit.run.folder / METRICS)
            if "validation" in record and record["step"] <= fit.progress.step
        ]
        return scores[-1] if scores and math.isfinite(scores[-1]) else self.goal.hopeless

    def confirm(self) -> Iterator[Confirmed]:
        """Train solutions to their last step, smallest first, until one reaches the goal on the test sets."""
        for trial in self.solutions():
            fit = resume(self.folder / trial.folder)
            with suppress(NotFinite):
                for _ in fit.steps():
                    pass
            self.interrupted = fit.interrupted
            holds = self.holds(trial)
            if self.interrupted is not None or holds is None:
                return
            yield Confirmed(trial, fit.run.results["test"], holds)
            if holds:
                return

    def carry_out(self, count: int, say: Callable[[str], None]) -> SearchResult:
        """All of it: the trials, the confirmation, and a picture of the front."""
        metric = self.goal.metric
        for trial in self.run(count):
            mark = "solved" if trial.solved else ""
            settings = " ".join(word.partition(".")[2] for word in trial.words)
            done = f"{len(self.trials())}/{count}"
            say(f"{done}  {trial.parameters:,} parameters  {metric} {trial.score:.4f} {mark}  {settings}")
        confirmed = [] if self.interrupted else list(self.confirm())
        if self.interrupted is not None:
            raise Stopped(self.folder, self.interrupted)
        front = self.front()
        points, on_front = ([(each.parameters, each.score) for each in group] for group in (self.trials(), front))
        picture = draw(self.folder / "front.png", plot_front, points, on_front, metric)
        return SearchResult(self.folder, front, confirmed, metric, picture)


def folder_of(suggestion: Any) -> str:
    return f"trial-{suggestion.number:04d}"


def trial_state() -> Any:
    from optuna.trial import TrialState

    return TrialState


def quiet_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise Problem("a search needs optuna: pip install 'headway[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
