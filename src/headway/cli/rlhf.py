"""rlhf, reward."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import FILE, recipe_argument, run_argument, settings_argument, trust_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, prints

if TYPE_CHECKING:
    from headway.api.studies import RlhfResult


@click.command()
@recipe_argument
@settings_argument
@click.option("--out", type=FILE, help="Folder of all stages; default: runs/RECIPE.")
@click.option(
    "--study", is_flag=True, help="Then compare other KL penalties, pre-training mix, GRPO, DPO and best-of-n."
)
@trust_option
@prints
def rlhf(recipe: str, settings: tuple[str, ...], out: Path | None, study: bool) -> Output:
    """Run all stages of a PPO RECIPE in one folder.

    The start, rankings, the reward model, the policy. Stages that are done are skipped, and a stopped stage is resumed.

    \b
    Examples:
      headway rlhf rlhf-lab
      headway rlhf rlhf-lab train.steps=800 reward.train.epochs=2 --out runs/longer
      headway rlhf rlhf-lab --study
    """
    from headway.api.studies import rlhf as run_stages

    result = run_stages(recipe, study=study, settings=settings, out=out, progress=following())
    folder = result.folder
    outcomes = [{**each._asdict(), "point": each.point._asdict()} for each in result.outcomes]
    data = {"folder": folder, "answers": [pair._asdict() for pair in result.pairs], "outcomes": outcomes}
    more = ["headway", "generate", folder / "policy", result.pairs[0].prompt]
    return Output(data, report(result), more, result.picture.notes)


def report(result: "RlhfResult") -> Iterator[Block]:
    yield ""
    yield Table(["prompt", "before", "after"], result.pairs)
    yield f"page: {result.page}"
    if result.outcomes:
        yield ""
        yield Table(
            ["", "kl", "reward", "judge", "perplexity", "seconds"],
            [(each.name, *each.point, each.perplexity, each.seconds) for each in result.outcomes],
        )
    yield from result.picture.line("reward and judge against the KL")


@click.command()
@run_argument
@click.argument("prompt")
@click.argument("answers", nargs=-1, required=True)
@prints
def reward(run: Path, prompt: str, answers: tuple[str, ...]) -> Output:
    """Rate ANSWERS to a PROMPT with a reward model RUN.

    The best comes first. A reward of 0 is the mean over the training data. The difference of two rewards is the
    log-odds that one answer is better than the other.

    \b
    Example:
      headway reward runs/reward-1 "What is the capital of France?" "Paris." "I do not know."
    """
    from headway.api.model import load

    rewards = load(run).rate(prompt, answers)
    ranked = sorted(zip(rewards, answers, strict=True), key=lambda pair: -pair[0])
    return Output(
        {"run": run, "prompt": prompt, "answers": [{"answer": text, "reward": value} for value, text in ranked]},
        [Table(["reward", "answer"], ranked), ""],
        ["headway", "train", "ppo", "start=RUN", f"data.reward={run}", "data.train=prompts.jsonl"],
    )
