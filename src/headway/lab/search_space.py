"""What a search is for, a goal, and the settings that it varies."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway.config.errors import Problem
from headway.config.parts import choose
from headway.lab.compare import split_choices
from headway.metrics import LOWER_IS_BETTER, NEITHER_IS_BETTER

DEFAULT_AXES = (
    "model.layers=1..2",
    "model.width=2..32",
    "model.heads=1,2",
    "model.hidden=1..64",
    "train.learning_rate=0.001..0.03",
)


@dataclass(frozen=True)
class Goal:
    """``accuracy>0.95``: a metric and its threshold."""

    metric: str
    value: float

    @classmethod
    def parse(cls, text: str, scores: Sequence[str]) -> "Goal":
        match = re.fullmatch(r"\s*(\w+)\s*([<>])\s*(-?\d*\.?\d+)\s*", text)
        if match is None:
            raise Problem(f"goal {text!r} is not of the form 'accuracy>0.95'")
        metric, sign, value = match.groups()
        choose(dict.fromkeys(scores), metric, "goal")
        if metric in NEITHER_IS_BETTER:
            raise Problem(f"goal {text!r}: neither a higher nor a lower {metric} is better")
        if (sign == "<") != (metric in LOWER_IS_BETTER):
            better = "lower" if metric in LOWER_IS_BETTER else "higher"
            raise Problem(f"goal {text!r}: a better {metric} is a {better} one")
        return cls(metric, float(value))

    @property
    def hopeless(self) -> float:
        """The score of a network that could not be trained."""
        if self.metric in LOWER_IS_BETTER:
            return 1e9
        return -1e9 if self.metric == "reward" else 0.0  # the others are shares

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
