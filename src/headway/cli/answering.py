"""The verb of reward models: reward."""

from pathlib import Path

import click

from headway.cli.asking import run_argument
from headway.cli.output import console, json_option, next_step, print_json, print_table


@click.command()
@run_argument
@click.argument("prompt")
@click.argument("answers", nargs=-1, required=True)
@json_option
def reward(run: Path, prompt: str, answers: tuple[str, ...], as_json: bool) -> None:
    """What a reward model RUN thinks of ANSWERS to a PROMPT, the best first.

    A reward of 0 is the mean of the answers that it was trained on; that of one answer less that of another says how
    likely it is the better one.

    \b
    Example:
      headway reward runs/reward-1 "What is the capital of France?" "Paris." "I do not know."
    """
    from headway.runs.model import load

    found = load(run).rate([prompt] * len(answers), answers)
    order = sorted(range(len(answers)), key=lambda place: -found[place])
    rows = [{"answer": answers[place], "reward": found[place]} for place in order]
    if as_json:
        print_json({"run": str(run), "prompt": prompt, "answers": rows})
        return
    print_table(["reward", "answer"], [(row["reward"], row["answer"]) for row in rows])
    console.print()
    next_step("headway", "train", "ppo", "start=RUN", f"data.reward={run}", "data.train=prompts.jsonl")


VERBS = [reward]
