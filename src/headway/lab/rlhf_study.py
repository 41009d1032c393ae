"""Ways to make a model write what is rewarded, side by side: how far each goes from where it began, what the reward
says of it, and what a judge says that nobody learned from.

The KL of the best of n answers is at most log n - (n - 1) / n (Beirami et al. 2024, https://arxiv.org/abs/2401.01879).
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from headway.data.files import Progress, silent
from headway.lab.plot import pyplot, save
from headway.runs.run import Run
from headway.tasks.abilities import UsesRuns, need
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.training.metrics_log import METRICS, validations

AT_ONCE = 256  # answers


class Point(NamedTuple):
    kl: float
    reward: float
    judge: float | None


class Outcome(NamedTuple):
    name: str
    point: Point
    perplexity: float | None  # of the text that it was first trained on
    seconds: float | None


@dataclass
class Bench:
    """What policies are compared on: the held-out prompts of one of them, and its rewards."""

    task: Any
    start: Run

    @classmethod
    def of(cls, policy: Run) -> "Bench":
        need(policy.task, UsesRuns).connect(Run)
        return cls(policy.task, Run(str(policy.recipe.start)))

    def outcome(self, name: str, run: Run) -> Outcome:
        """Of a run of ppo or dpo."""
        model: Any = run.model()
        (prompts,) = self.task.splits().validation.values()
        found = self.task.measure(model, prompts)
        return Outcome(name, point(found), self.perplexity(model.decoder), run.results["seconds"])

    def perplexity(self, decoder: Any) -> float | None:
        """Of the text that the start was trained on, what was held out of it."""
        (text, *_) = self.start.task.splits().validation.values()
        return self.start.task.measure(decoder, text).get("perplexity")

    def start_itself(self) -> PolicyWithReference:
        """The start as a policy that has not learned."""
        decoder: Any = self.start.model()
        return PolicyWithReference(decoder, decoder).eval()

    @torch.no_grad()
    def best_of(self, counts: Sequence[int], progress: Progress = silent) -> list[Outcome]:
        """Of the start: so many answers are written, and the one with the highest reward is taken."""
        anchored, most = self.start_itself(), max(counts)
        (prompts,) = self.task.splits().validation.values()
        rows = np.arange(min(len(prompts), max(AT_ONCE, 1)))
        some = prompts.take(rows)
        found: dict[str, np.ndarray] = {use: np.empty((len(rows), most)) for use in self.task.rewards}
        for number in range(most):
            written = self.task.sampler.sample(anchored, some.lists(), (rows + number * len(rows)).tolist())
            texts = self.task.sampler.texts(written)
            for use, reward in self.task.rewards.items():
                found[use][:, number] = reward(self.task.texts_of(some), texts)
            progress("best of n", (number + 1) / most)
        outcomes, perplexity = [], self.perplexity(anchored.decoder)
        for count in counts:
            best = found["reward"][:, :count].argmax(axis=1)
            means = {use: float(each[np.arange(len(rows)), best].mean()) for use, each in found.items()}
            kl = math.log(count) - (count - 1) / count
            outcomes.append(Outcome(f"best of {count}", point({"kl": kl, **means}), perplexity, None))
        return outcomes


def point(found: dict[str, float]) -> Point:
    return Point(found["kl"], found["reward"], found.get("judge"))


def way(run: Run) -> list[Point]:
    """Where a policy was, evaluation after evaluation."""
    return [point(each) for _, each in validations(run.folder / METRICS) if "kl" in each]


def save_ways(path: Path, ways: dict[str, list[Point]]) -> None:
    """Reward and, where there is one, judge against the KL; ways of one point are crosses."""
    plot, judged = pyplot(), any(each.judge is not None for points in ways.values() for each in points)
    titles = {"reward": "what the reward says"} | ({"judge": "what the judge says"} if judged else {})
    size = (5.5 * len(titles), 4.5)
    figure, (row,) = plot.subplots(1, len(titles), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for axes, (what, title) in zip(row, titles.items(), strict=True):
        for name, points in ways.items():
            across, up = [each.kl for each in points], [getattr(each, what) for each in points]
            axes.plot(across, up, marker="x" if len(points) == 1 else ".", label=name)
        axes.set(xlabel="KL from the start (nats)", title=title)
        axes.set_xscale("symlog", linthresh=1)
        axes.grid(alpha=0.3)
    row[0].legend(fontsize=8)
    save(figure, path)


class Pair(NamedTuple):
    prompt: str
    before: str
    after: str


def before_and_after(policy: Run, count: int, max_new_tokens: int, seed: int = 1) -> list[Pair]:
    """What the start writes to held-out prompts, and what the policy does, with the same chances."""
    task: Any = policy.task
    model: Any = policy.model()
    prompts = task.prompts(count)
    seeds = range(seed, seed + len(prompts))
    with model.as_reference() as reference:
        before = task.generator(PolicyWithReference(reference, None)).write(prompts, max_new_tokens, seeds=seeds)
    after = task.generator(model).write(prompts, max_new_tokens, seeds=seeds)
    return [Pair(*each) for each in zip(prompts, before, after, strict=True)]


PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto}} td:first-child{{color:#777}}
td,th{{vertical-align:top;text-align:left;padding:.4em 1em;border-bottom:1px solid #ddd}}</style>
<h1>{title}</h1><table><tr><th>prompt<th>before<th>after</tr>
{rows}</table>
"""


def save_page(path: Path, title: str, pairs: Sequence[Pair]) -> None:
    rows = ("<tr>" + "".join(f"<td>{html.escape(text)}" for text in pair) + "</tr>\n" for pair in pairs)
    path.write_text(PAGE.format(title=html.escape(title), rows="".join(rows)), encoding="utf-8")
