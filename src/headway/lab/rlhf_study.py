"""Ways to align a model, side by side: KL from the start, reward, and the score of a judge that nothing was trained on.

The KL of best-of-n sampling is at most log n - (n - 1) / n (Beirami et al. 2024, https://arxiv.org/abs/2401.01879).
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from headway import recipes
from headway.config.errors import Problem
from headway.data.files import Progress, silent
from headway.data.storage import write_whole
from headway.lab.plot import Picture, Plot, draw
from headway.runs import pipeline
from headway.runs.run import Run
from headway.tasks.abilities import UsesRuns, need
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.training.metrics_log import METRICS, validations

BATCH_SIZE = 256
SHOWN = 6  # answers before and after
BEST_OF = (1, 4, 16, 64)
STUDY = {  # variants of the recipe
    "beta 0.5": ("data.kl_penalty=fixed(beta=0.5)",),
    "beta 0.02": ("data.kl_penalty=fixed(beta=0.02)",),
    "beta 0.02, gamma 0.1": ("data.kl_penalty=fixed(beta=0.02)", "data.ptx_data=reviews", "data.ptx_coef=0.1"),
    "beta 0, pushed": ("data.kl_penalty=fixed(beta=0)", "train.steps=1200", "train.schedule=constant"),
    "grouped": ("data.advantage=grpo", "data.group_size=8", "data.vf_coef=0"),
}
DPO = ("train.learning_rate=5e-4", "train.epochs=3", "data.validation=0.1")


class Point(NamedTuple):
    kl: float
    reward: float
    judge: float | None


class Outcome(NamedTuple):
    name: str
    point: Point
    perplexity: float | None  # on held-out text of the start
    seconds: float | None


class Pair(NamedTuple):
    prompt: str
    before: str
    after: str


@dataclass(frozen=True)
class RlhfResult:
    folder: Path
    pairs: list[Pair]  # answers before and after
    page: Path
    outcomes: list[Outcome]  # of the study; empty if there was none
    picture: Picture


def run_stages(
    recipe: str, overrides: Sequence[str], folder: Path, study: bool, reporter: pipeline.Reporter
) -> RlhfResult:
    """Train all stages in one folder; with ``study``, also train and measure variants."""
    task = recipes.task(recipe, recipes.split_overrides(overrides, "reward.")[0])
    if not task.stages:
        raise Problem(f"{recipe} is a recipe of {task.recipe.task}, which has no stages: use headway train {recipe}")
    pipeline.train(recipe, overrides, pipeline.RunFolders(folder / "policy", folder), reporter)
    policy = Run(folder / "policy")
    pairs = before_and_after(policy, SHOWN, policy.recipe.data.max_new_tokens)
    page = folder / "answers.html"
    save_page(page, f"{recipe}: before and after", pairs)
    outcomes, ways = [], {"ppo": way(policy)}
    if study:
        runs = {"ppo": policy, **train_variants(recipe, overrides, folder, policy, reporter)}
        bench = Bench.of(policy)
        with reporter.reading() as shown:
            best = bench.best_of(BEST_OF, shown)
        outcomes = [*best, *(bench.outcome(name, run) for name, run in runs.items())]
        points = {outcome.name: outcome.point for outcome in outcomes}
        ways = {"best of n": [outcome.point for outcome in best]}
        ways |= {name: way(run) or [points[name]] for name, run in runs.items()}
    return RlhfResult(folder, pairs, page, outcomes, draw(folder / "ways.png", plot_ways, ways))


def train_variants(
    recipe: str, overrides: Sequence[str], folder: Path, policy: Run, reporter: pipeline.Reporter
) -> dict[str, Run]:
    """The variants of the study, and DPO where there are rankings."""
    data, folders = policy.recipe.data, pipeline.RunFolders(folder / "study", folder / "study")
    own = [override for override in overrides if not override.startswith(("start.", "reward."))]
    start = f"start={policy.recipe.start}"
    runs = {}
    for name, changes in STUDY.items():
        run_folder = folders.stage(name.replace(",", "").replace(" ", "-"))
        settings = [*own, start, f"data.reward={data.reward}", *changes]
        runs[name] = pipeline.train(recipe, settings, run_folder, reporter).run
    rankings = folder / "rankings.jsonl"
    if rankings.is_file():
        same = (
            f"data.template={data.template}",
            f"data.max_length={data.max_length}",
            f"train.seed={policy.recipe.train.seed}",
        )
        settings = [start, f"data.train={rankings}", *same, *DPO]
        runs["dpo"] = pipeline.train("dpo", settings, folders.stage("dpo"), reporter).run
    return runs


@dataclass
class Bench:
    """What policies are compared on: the held-out prompts and the rewards of one of them."""

    task: Any
    start: Run

    @classmethod
    def of(cls, policy: Run) -> "Bench":
        need(policy.task, UsesRuns).connect(Run)
        return cls(policy.task, Run(str(policy.recipe.start)))

    def outcome(self, name: str, run: Run) -> Outcome:
        model: Any = run.network
        (prompts,) = self.task.splits().validation.values()
        metrics = self.task.measure(model, prompts)
        return Outcome(name, point(metrics), self.perplexity(model.decoder), run.results["seconds"])

    def perplexity(self, decoder: Any) -> float | None:
        """On the text that was held out when the start was trained."""
        (text, *_) = self.start.task.splits().validation.values()
        return self.start.task.measure(decoder, text).get("perplexity")

    def untrained_policy(self) -> PolicyWithReference:
        decoder: Any = self.start.network
        return PolicyWithReference(decoder, decoder).eval()

    @torch.no_grad()
    def best_of(self, counts: Sequence[int], progress: Progress = silent) -> list[Outcome]:
        """Best-of-n sampling from the start: of n answers, the one with the highest reward."""
        policy, most = self.untrained_policy(), max(counts)
        (prompts,) = self.task.splits().validation.values()
        rows = np.arange(min(len(prompts), BATCH_SIZE))
        chosen = prompts.take(rows)
        rewards: dict[str, np.ndarray] = {use: np.empty((len(rows), most)) for use in self.task.rewards}
        for number in range(most):
            completions = self.task.sampler.sample(policy, chosen.lists(), (rows + number * len(rows)).tolist())
            texts = self.task.sampler.texts(completions)
            for use, reward in self.task.rewards.items():
                rewards[use][:, number] = reward(self.task.texts_of(chosen), texts)
            progress("best of n", (number + 1) / most)
        outcomes, perplexity = [], self.perplexity(policy.decoder)
        for count in counts:
            best = rewards["reward"][:, :count].argmax(axis=1)
            means = {use: float(values[np.arange(len(rows)), best].mean()) for use, values in rewards.items()}
            kl = math.log(count) - (count - 1) / count
            outcomes.append(Outcome(f"best of {count}", point({"kl": kl, **means}), perplexity, None))
        return outcomes


def point(metrics: dict[str, float]) -> Point:
    return Point(metrics["kl"], metrics["reward"], metrics.get("judge"))


def way(run: Run) -> list[Point]:
    """The points of a policy at each evaluation."""
    return [point(metrics) for _, metrics in validations(run.folder / METRICS) if "kl" in metrics]


def plot_ways(ways: dict[str, list[Point]]) -> Plot:
    """Reward and, if there is one, judge against the KL; single points are crosses."""
    judged = any(each.judge is not None for points in ways.values() for each in points)
    titles = {"reward": "reward"} | ({"judge": "judge"} if judged else {})
    plot = Plot((5.5 * len(titles), 4.5), 1, len(titles), sharey=True)
    (row,) = plot.axes
    for axes, (what, title) in zip(row, titles.items(), strict=True):
        for name, points in ways.items():
            x, y = [each.kl for each in points], [each._asdict()[what] for each in points]
            axes.plot(x, y, marker="x" if len(points) == 1 else ".", label=name)
        axes.set(xlabel="KL from the start (nats)", title=title)
        axes.set_xscale("symlog", linthresh=1)
        axes.grid(alpha=0.3)
    row[0].legend(fontsize=8)
    return plot


def before_and_after(policy: Run, count: int, max_new_tokens: int, seed: int = 1) -> list[Pair]:
    """Completions of held-out prompts by the start and by the policy, with the same seeds."""
    task: Any = policy.task
    model: Any = policy.network
    prompts = task.prompts(count)
    seeds = range(seed, seed + len(prompts))
    with model.as_reference() as reference:
        before = task.generator(PolicyWithReference(reference, None)).write(prompts, max_new_tokens, seeds=seeds)
    after = task.generator(model).write(prompts, max_new_tokens, seeds=seeds)
    return [Pair(*texts) for texts in zip(prompts, before, after, strict=True)]


PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto}} td:first-child{{color:#777}}
td,th{{vertical-align:top;text-align:left;padding:.4em 1em;border-bottom:1px solid #ddd}}</style>
<h1>{title}</h1><table><tr><th>prompt<th>before<th>after</tr>
{rows}</table>
"""


def save_page(path: Path, title: str, pairs: Sequence[Pair]) -> None:
    rows = ("<tr>" + "".join(f"<td>{html.escape(text)}" for text in pair) + "</tr>\n" for pair in pairs)
    write_whole(path, PAGE.format(title=html.escape(title), rows="".join(rows)))
