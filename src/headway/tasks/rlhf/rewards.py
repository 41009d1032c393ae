"""Rewards of answers: from a reward model, a classifier, a Python function, or a rule.

data.reward=runs/reward-1
data.reward=runs/classify-1:positive             the log-odds of this label
data.reward=my_package.my_module:my_function     takes lists of prompts and answers, returns a list of numbers
data.reward="words(wanted='good great')"
"""

import math
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headway.config import imports
from headway.config.errors import BadSetting, NoReward, Problem, did_you_mean
from headway.config.parts import bind, is_path
from headway.data.grammar import quality
from headway.tasks.abilities import OpenRun, Predicts, RanksAnswers, TrainedRun, can, need

Reward = Callable[[Sequence[str], Sequence[str]], list[float]]  # (prompts, answers) -> rewards
EPSILON = 1e-9  # probabilities are clamped to [EPSILON, 1 - EPSILON]


def words(prompts: Sequence[str], answers: Sequence[str], wanted: str, unwanted: str = "") -> list[float]:
    """The number of wanted words in an answer, minus the unwanted ones."""
    good, bad = set(wanted.split()), set(unwanted.split())
    return [float(sum((word in good) - (word in bad) for word in answer.split())) for answer in answers]


def length(prompts: Sequence[str], answers: Sequence[str], target: int = 20) -> list[float]:
    """Minus the distance of the number of words from the target."""
    return [-float(abs(len(answer.split()) - target)) for answer in answers]


def matches(prompts: Sequence[str], answers: Sequence[str], pattern: str) -> list[float]:
    """1 if the regular expression matches somewhere in the answer."""
    return [float(re.search(pattern, answer) is not None) for answer in answers]


def of_review(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    """Quality of a review from the small grammar, see data/grammar."""
    return [quality(f"{prompt} {answer}") for prompt, answer in zip(prompts, answers, strict=True)]


RULES: dict[str, Callable[..., list[float]]] = {
    "length": length,
    "matches": matches,
    "quality": of_review,
    "words": words,
}


def rewards_of(data: Any, open_run: OpenRun) -> dict[str, Reward]:
    """The reward to train on, and the judge if there is one."""
    if not data.reward:
        raise BadSetting(
            "data.reward", f"missing: name a run of a reward model, a function, or a rule: {', '.join(RULES)}"
        )
    named = {"reward": data.reward, "judge": data.judge}
    return {use: reward_of(text, f"data.{use}", open_run) for use, text in named.items() if text}


def reward_of(text: str, key: str, open_run: OpenRun) -> Reward:
    """The reward that the text names; its results are checked."""
    return partial(checked, find(text, key, open_run), text)


def find(text: str, key: str, open_run: OpenRun) -> Callable[..., Any]:
    folder, _, label = text.rpartition(":")
    if is_run(text):
        return of_run(open_run(text), key)
    if is_run(folder):
        return of_label(open_run(folder), label, key)
    if imports.is_function(text):
        return imports.function(text, key)
    if is_path(text):
        other = ", nor a function (package.module:name)" if ":" in text else ""
        raise BadSetting(key, f"{text} is not a run: it has no recipe.toml{other}; see headway runs")
    rule = bind(RULES, text, key)
    try:
        rule(["a prompt"], ["an answer"])
    except Exception as error:  # a missing or invalid option
        raise BadSetting(key, f"{text} does not work: {error}") from None
    return rule


def is_run(text: str) -> bool:
    return bool(text) and os.path.isfile(Path(text) / "recipe.toml")


def of_run(run: TrainedRun, key: str) -> Reward:
    if can(run.task, Predicts):
        label = need(run.task, Predicts).labels[-1]
        raise BadSetting(key, f"{run.folder} is a classifier: name one of its labels, {run.folder}:{label}")
    if not can(run.task, RanksAnswers):
        raise BadSetting(key, f"{run.folder} is a run of {run.recipe.task}, not of reward")
    return partial(need(run.task, RanksAnswers).rate, run.network)


def of_label(run: TrainedRun, label: str, key: str) -> Reward:
    """The log-odds of this label for the prompt with its answer."""
    if not can(run.task, Predicts):
        raise BadSetting(key, f"{run.folder} is a run of {run.recipe.task}, which has no labels")
    task = need(run.task, Predicts)
    if label not in task.labels:
        raise BadSetting(key, f"{run.folder} has no label {label!r}; {did_you_mean(label, task.labels)}")
    model, column = run.network, task.labels.index(label)

    def log_odds(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        texts = [f"{prompt} {answer}" for prompt, answer in zip(prompts, answers, strict=True)]
        logits = task.logits_of(model, task.sequences(texts)).double()
        return task.probabilities(logits)[:, column].logit(eps=EPSILON).tolist()

    return log_odds


def checked(reward: Callable[..., Any], name: str, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    try:
        rewards = [float(value) for value in reward(prompts, answers)]
    except Problem:
        raise
    except Exception as error:
        raise NoReward(f"the reward {name} failed: {type(error).__name__}: {error}") from error
    if len(rewards) != len(answers):
        raise NoReward(f"the reward {name} gave {len(rewards)} numbers for {len(answers)} answers")
    for value, answer in zip(rewards, answers, strict=True):
        if not math.isfinite(value):
            raise NoReward(f"the reward {name} gave {value} for the answer {answer[:60]!r}")
    return rewards
