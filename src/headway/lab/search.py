"""Search for the smallest network that reaches a goal, with Optuna.

Each trial is a run. Its size is known before training, so networks as large as the smallest solution so far are not
trained at all. A trial is solved when its worst validation set reaches the goal; at the end the smallest solutions are
trained to their last step and evaluated on the test sets, which were not used before.
"""

import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals
from typing import Any

from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.config.json_files import read_json
from headway.config.parts import choose
from headway.config.recipe import Recipe
from headway.config.settings import to_toml
from headway.data.storage import write_whole
from headway.lab.compare import Stopped, refuse_processes, split_choices
from headway.lab.plot import Picture, draw, plot_front
from headway.metrics import LOWER_IS_BETTER, worst
from headway.runs.fit import resume, start
from headway.runs.run import Run, count_parameters
from headway.training.finite import NotFinite
from headway.training.loop import Metrics

DEFAULT_AXES = (
    "model.layers=1..2",
    "model.width=2..32",
    "model.heads=1,2",
    "model.hidden=1..64",
    "train.learning_rate=0.001..0.03",
)
MOST_UNUSED = 500  # unusable suggestions in a row (too large, or tried before) after which the search ends


@dataclass(frozen=True)
class Goal:
    """``accuracy>0.95``: a metric and its threshold."""

    metric: str
    value: float

    @classmethod
    def parse(cls, text: str, scores: Sequence[str]) -> "Goal":
        match = re.fullmatch(r"\s*(\w+)\s*([<>])\s*(\d*\.?\d+)\s*", text)
        if match is None:
            raise Problem(f"--goal {text!r} is not of the form 'accuracy>0.95'")
        metric, sign, value = match.groups()
        choose(dict.fromkeys(scores), metric, "--goal")
        if (sign == "<") != (metric in LOWER_IS_BETTER):
            better = "lower" if metric in LOWER_IS_BETTER else "higher"
            raise Problem(f"--goal {text!r}: a better {metric} is a {better} one")
        return cls(metric, float(value))

    @property
    def hopeless(self) -> float:
        """The score of a network that could not be trained."""
        return 1e9 if self.metric in LOWER_IS_BETTER else 0.0

    def shortfall(self, value: float) -> float:
        """The distance of a value from the goal; negative when the goal is reached."""
        return value - self.value if self.metric in LOWER_IS_BETTER else self.value - value


@dataclass(frozen=True)
class Axis:
    """A setting to search over: ``model.width=2..64``, on a logarithmic scale, or ``model.norm=pre,rezero``."""

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0

    @classmethod
    def parse(cls, axis: str) -> "Axis":
        key, _, values = axis.partition("=")
        bounds = values.split("..")
        if key and values and len(bounds) == 1:
            return cls(key, tuple(split_choices(values)))
        try:
            low, high = (int(bound) if bound.isdigit() else float(bound) for bound in bounds)
            if 0 < low < high:
                return cls(key, (), low, high)
        except ValueError:
            pass
        raise Problem(f"--over {axis!r} is not of the form key=1..64 or key=this,that")

    def suggest(self, trial: Any) -> str:
        if self.choices:
            return f"{self.key}={trial.suggest_categorical(self.key, self.choices)}"
        if isinstance(self.low, int) and isinstance(self.high, int):
            return f"{self.key}={trial.suggest_int(self.key, self.low, self.high, log=True)}"
        return f"{self.key}={trial.suggest_float(self.key, self.low, self.high, log=True):.3g}"


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
        self.study = open_study(folder, recipe.train.seed)
        self.refuse_another_search(recipe)

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
        path = self.folder / "search.json"
        now = {"recipe": to_toml(recipe), "goal": asdict(self.goal), "axes": [str(axis) for axis in self.axes]}
        if not path.exists():
            write_whole(path, json.dumps(now, indent=2))
        elif read_json(path) != now:
            raise Problem(f"{self.folder} holds another search (see {path}): give another --out")

    def trials(self) -> list[Trial]:
        """The trials trained so far."""
        return [Trial(**trial.user_attrs) for trial in self.study.get_trials(deepcopy=False) if trial.user_attrs]

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
        while len(self.trials()) < count and unused < MOST_UNUSED:
            suggestion = self.study.ask()
            overrides = [axis.suggest(suggestion) for axis in self.axes]
            parameters = self.size(overrides)
            if parameters is None or not self.is_worth_training(overrides, parameters):
                unused += 1
                self.study.tell(suggestion, state=trial_state().PRUNED)
                continue
            unused = 0
            folder = f"trial-{suggestion.number:04d}"
            score = self.train(overrides, self.folder / folder)
            if self.interrupted:
                self.study.tell(suggestion, state=trial_state().FAIL)
                return
            trial = Trial(overrides, parameters, score, self.goal.shortfall(score) < 0, folder)
            for key, value in asdict(trial).items():
                suggestion.set_user_attr(key, value)
            suggestion.set_constraint("goal", self.goal.shortfall(score))  # solutions rank before everything else
            self.study.tell(suggestion, parameters)
            yield trial
        if not self.trials():
            raise Problem(f"no network could be built in {MOST_UNUSED} attempts: {self.problem}")

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
        """Train until the validation sets reach the goal, or to the end; returns the last score."""
        fit = start(recipes.load(self.name, [*self.overrides, *overrides]), folder)
        score = self.goal.hopeless
        with closing(fit.steps()) as steps, suppress(NotFinite):
            for step in steps:
                if step.validation is not None:
                    score = worst(self.goal.metric, step.validation)
                    if self.goal.shortfall(score) < 0:
                        break
        self.interrupted = fit.interrupted
        return score if math.isfinite(score) else self.goal.hopeless

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


def trial_state() -> Any:
    from optuna.trial import TrialState

    return TrialState


def open_study(folder: Path, seed: int) -> Any:
    """Optuna's study in this folder, new or continued."""
    try:
        import optuna
    except ImportError:
        raise Problem("a search needs optuna: pip install 'headway[search]'") from None
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name="search",
        storage=JournalStorage(JournalFileBackend(str(folder / "journal.log"))),
        load_if_exists=True,
    )
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), n_startup_trials=20, multivariate=True)
    for trial in study.get_trials(states=(trial_state().RUNNING,)):
        study.tell(trial.number, state=trial_state().FAIL)  # unfinished when the search was stopped
    return study
