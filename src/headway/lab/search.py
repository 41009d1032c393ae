"""Searching for the smallest network that reaches a goal, with Optuna.

Each trial is a run. Its size is known before it is trained, so nothing as large as the smallest solution so far is
trained at all. A trial counts as solved when the worst of its validation sets reaches the goal; at the end the smallest
solutions are trained to their last step and tried on the test sets, which took no part before.
"""

import json
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals
from typing import Any

from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.config.parts import choose
from headway.config.recipe import Recipe
from headway.config.settings import to_toml
from headway.data.files import read_json
from headway.data.storage import write_whole
from headway.lab.compare import refuse_processes
from headway.lab.variants import split_choices
from headway.metrics import LOWER_IS_BETTER, worst
from headway.runs.fit import resume, start
from headway.runs.run import Run, parameters_of
from headway.tasks import TASKS
from headway.training.finite import NotFinite
from headway.training.loop import Metrics

DEFAULT_AXES = (
    "model.layers=1..2",
    "model.width=2..32",
    "model.heads=1,2",
    "model.hidden=1..64",
    "train.learning_rate=0.001..0.03",
)
MOST_UNUSED = 500  # suggestions in a row that are too large or known, before the space counts as exhausted


@dataclass(frozen=True)
class Goal:
    """``accuracy>0.95``: a metric, and the value that it has to pass."""

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
        """The score of a network that could not be trained at all."""
        return 1e9 if self.metric in LOWER_IS_BETTER else 0.0

    def shortfall(self, value: float) -> float:
        """How far a value is from the goal; negative once it is passed."""
        return value - self.value if self.metric in LOWER_IS_BETTER else self.value - value


@dataclass(frozen=True)
class Axis:
    """A setting to search over: ``model.width=2..64``, on a logarithmic scale, or ``model.norm=pre,rezero``."""

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0

    @classmethod
    def parse(cls, word: str) -> "Axis":
        key, _, values = word.partition("=")
        bounds = values.split("..")
        if key and values and len(bounds) == 1:
            return cls(key, tuple(split_choices(values)))
        try:
            low, high = (int(bound) if bound.isdigit() else float(bound) for bound in bounds)
            if 0 < low < high:
                return cls(key, (), low, high)
        except ValueError:
            pass
        raise Problem(f"--over {word!r} is not of the form key=1..64 or key=this,that")

    def suggest(self, trial: Any) -> str:
        if self.choices:
            return f"{self.key}={trial.suggest_categorical(self.key, self.choices)}"
        if isinstance(self.low, int) and isinstance(self.high, int):
            return f"{self.key}={trial.suggest_int(self.key, self.low, self.high, log=True)}"
        return f"{self.key}={trial.suggest_float(self.key, self.low, self.high, log=True):.3g}"


@dataclass(frozen=True)
class Trial:
    words: list[str]
    parameters: int
    score: float  # of the worst validation set
    solved: bool
    folder: str  # in that of the search


class Search:
    """Kept in a folder: the same search, opened again, goes on where it was left."""

    def __init__(self, name: str, words: Sequence[str], goal: str, over: Sequence[str], folder: Path):
        self.name, self.words, self.folder = name, list(words), folder
        recipe = recipes.load(name, words)
        refuse_processes(recipe.train)
        self.goal = Goal.parse(goal, TASKS[recipe.task].validation_metrics())
        self.axes = self.find_axes(over)
        self.problem: Problem | None = None  # what was wrong with the last suggestion that does not fit together
        self.interrupted: Signals | None = None
        self.study = open_study(folder, recipe.train.seed)
        self.refuse_another_search(recipe)

    def find_axes(self, over: Sequence[str]) -> list[Axis]:
        """The usual ones, unless a setting fixes them, and those asked for; their keys and values must exist."""
        fixed = {word.partition("=")[0] for word in self.words}
        asked = {axis.key: axis for axis in map(Axis.parse, over)}
        if both := sorted(fixed & asked.keys()):
            raise Problem(f"{both[0]} is both set and searched over: leave out one of them")
        usual = {axis.key: axis for axis in map(Axis.parse, DEFAULT_AXES) if axis.key not in fixed}
        axes = list((usual | asked).values())
        for axis in axes:
            for value in axis.choices or (axis.low, axis.high):
                try:
                    recipes.load(self.name, [*self.words, f"{axis.key}={value}"])
                except BadSetting as bad:  # of another key: this value alone does not fit the others, which may vary
                    if axis.key.startswith(bad.key):
                        raise
        return axes

    def refuse_another_search(self, recipe: Recipe) -> None:
        """A folder holds one search: its trials would mean something else in another one."""
        path = self.folder / "search.json"
        now = {"recipe": to_toml(recipe), "goal": asdict(self.goal), "axes": [str(axis) for axis in self.axes]}
        if not path.exists():
            write_whole(path, json.dumps(now, indent=2))
        elif read_json(path) != now:
            raise Problem(f"{self.folder} holds another search (see {path}): give another --out")

    def trials(self) -> list[Trial]:
        """All that were trained so far."""
        return [Trial(**trial.user_attrs) for trial in self.study.get_trials(deepcopy=False) if trial.user_attrs]

    def solutions(self) -> list[Trial]:
        """Those that reached the goal and were not refuted by the test sets, smallest first."""
        solved = [trial for trial in self.trials() if trial.solved and self.holds(trial) is not False]
        return sorted(solved, key=lambda trial: trial.parameters)

    def holds(self, trial: Trial) -> bool | None:
        """Whether the goal is reached on the test sets; None while that is not known."""
        run = Run(self.folder / trial.folder)
        return self.goal.shortfall(worst(self.goal.metric, run.results["test"])) < 0 if run.is_done else None

    def front(self) -> list[Trial]:
        """Those that score better than everything as small as they are or smaller, smallest first."""
        best: list[Trial] = []
        for trial in sorted(self.trials(), key=lambda each: (each.parameters, self.goal.shortfall(each.score))):
            if not best or self.goal.shortfall(trial.score) < self.goal.shortfall(best[-1].score):
                best.append(trial)
        return best

    def run(self, count: int) -> Iterator[Trial]:
        """Train until there are so many trials, counting those from before, or nothing new is left to try."""
        unused = 0
        while len(self.trials()) < count and unused < MOST_UNUSED:
            asked = self.study.ask()
            words = [axis.suggest(asked) for axis in self.axes]
            parameters = self.size(words)
            if parameters is None or not self.is_worth_training(words, parameters):
                unused += 1
                self.study.tell(asked, state=trial_state().PRUNED)
                continue
            unused = 0
            folder = f"trial-{asked.number:04d}"
            score = self.train(words, self.folder / folder)
            if self.interrupted:
                self.study.tell(asked, state=trial_state().FAIL)
                return
            trial = Trial(words, parameters, score, self.goal.shortfall(score) < 0, folder)
            for key, value in asdict(trial).items():
                asked.set_user_attr(key, value)
            asked.set_constraint("goal", self.goal.shortfall(score))  # a solution beats everything that is none
            self.study.tell(asked, parameters)
            yield trial
        if not self.trials():
            raise Problem(f"no network could be made in {MOST_UNUSED} attempts: {self.problem}")

    def size(self, words: list[str]) -> int | None:
        """How many parameters a recipe with these words has; None if they do not fit together."""
        try:
            recipe = recipes.load(self.name, [*self.words, *words])
        except Problem as problem:
            self.problem = problem
            return None
        task = TASKS[recipe.task](recipe)
        task.prepare()
        return parameters_of(task)

    def is_worth_training(self, words: list[str], parameters: int) -> bool:
        solutions = self.solutions()
        is_smaller = not solutions or parameters < solutions[0].parameters
        return is_smaller and all(trial.words != words for trial in self.trials())

    def train(self, words: list[str], folder: Path) -> float:
        """Train until the goal is reached on the validation sets, or to the end; the last score."""
        session = start(recipes.load(self.name, [*self.words, *words]), folder)
        score = self.goal.hopeless
        with closing(session.steps()) as steps, suppress(NotFinite):
            for step in steps:
                if step.validation is not None:
                    score = worst(self.goal.metric, step.validation)
                    if self.goal.shortfall(score) < 0:
                        break
        self.interrupted = session.interrupted
        return score if math.isfinite(score) else self.goal.hopeless

    def confirm(self) -> Iterator[tuple[Trial, Metrics, bool]]:
        """Train solutions to their last step, smallest first, until one holds on the test sets as well."""
        for trial in self.solutions():
            session = resume(self.folder / trial.folder)
            with suppress(NotFinite):
                for _ in session.steps():
                    pass
            self.interrupted = session.interrupted
            holds = self.holds(trial)
            if self.interrupted is not None or holds is None:
                return
            yield trial, session.run.results["test"], holds
            if holds:
                return


def trial_state() -> Any:
    from optuna.trial import TrialState

    return TrialState


def open_study(folder: Path, seed: int) -> Any:
    """Optuna's study of this folder: a new one, or as it was left."""
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
        study.tell(trial.number, state=trial_state().FAIL)  # cut off when the search was stopped
    return study
