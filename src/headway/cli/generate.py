"""generate, ask."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from headway.cli.options import AT_LEAST_1, FILE, Renamed, new_tokens_option, run_argument, seed_option
from headway.cli.render import Block, Output, Stream, Table, dim, prints, short
from headway.config.errors import Problem


@click.command()
@run_argument
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@new_tokens_option(200, 1_000_000)
@click.option(
    "--temperature", default=0.8, show_default=True, help="Sampling temperature; 0: always the most likely token."
)
@click.option("--top-k", type=int, help="Sample from the k most likely tokens only.")
@click.option(
    "--top-p",
    type=float,
    help="Nucleus sampling: keep the smallest set of tokens whose probability exceeds this.",
)
@click.option("--min-p", type=float, help="Keep tokens at least this times as likely as the most likely one.")
@click.option(
    "--repetition-penalty",
    cls=Renamed,
    was="--repetition",
    default=1.0,
    show_default=True,
    help="Repetition penalty: above 1, tokens that have occurred become less likely.",
)
@click.option("--stop", "stops", multiple=True, metavar="TEXT", help="Stop before this text; repeatable.")
@seed_option("Random seed of the first text; the next texts use the following seeds.")
@click.option(
    "--count", default=1, show_default=True, type=click.IntRange(1, 10_000), help="Number of texts per prompt."
)
@click.option("--best-of", type=AT_LEAST_1, help="Best-of-n: generate n texts and keep the one with the best --reward.")
@click.option("--reward", help="Reward for --best-of: a reward model, RUN:LABEL of a classifier, a function or a rule.")
@click.option("--int8", is_flag=True, help="Use int8 weights: faster on a CPU, slightly less exact.")
@prints
def generate(
    run: Path,
    prompts: tuple[str, ...],
    max_new_tokens: int,
    stops: tuple[str, ...],
    seed: int,
    count: int,
    best_of: int | None,
    reward: str | None,
    int8: bool,
    **sampling: Any,
) -> Output:
    """Generate text with a trained RUN. It continues each PROMPT, or starts a new text.

    \b
    Examples:
      headway generate runs/language-1 "def main("
      headway generate runs/language-1 "import " --temperature 0.5 --top-k 40 --count 3 --stop "\\n\\n"
      headway generate runs/sft-1 "the acting was" --best-of 16 --reward runs/reward-1
    """
    from headway.generation import Sampling
    from headway.runs.model import best_of as best_texts
    from headway.runs.run import Run
    from headway.tasks.abilities import Generates, Translates, can, need
    from headway.tasks.rlhf.rewards import reward_of

    if (best_of is None) != (reward is None):
        raise Problem("--best-of and --reward go together: n texts are generated, and the reward chooses the best")
    rate = None if reward is None else reward_of(reward, "--reward", Run)
    trained = Run(run)
    if can(trained.task, Translates):
        raise Problem(f"{run} translates: headway translate {run} TEXT")
    generator = replace(need(trained.task, Generates).generator(trained.model()), int8=int8)
    inputs = [prompt for prompt in prompts or ("",) for _ in range(count)]
    for prompt in inputs:
        generator.tokens_of(prompt)  # a bad prompt is refused before anything is printed
    seeds = range(seed, seed + len(inputs))
    stops = tuple(stop.encode().decode("unicode_escape") if "\\" in stop else stop for stop in stops)
    how = Sampling(**sampling)

    def texts() -> tuple[list[str], list[float] | None]:
        if rate is None:
            return generator.write(inputs, max_new_tokens, how, seeds, stops), None
        return best_texts(generator, inputs, best_of or 1, rate, max_new_tokens, how, seed, stops)

    def rows() -> list[dict[str, Any]]:
        written, rewards = texts()
        scored: list[dict[str, float]] = [{}] * len(written) if rewards is None else [{"reward": r} for r in rewards]
        return [
            {"prompt": prompt, "text": text, **more} for prompt, text, more in zip(inputs, written, scored, strict=True)
        ]

    def blocks() -> Iterator[Block]:
        if len(inputs) == 1 and rate is None:
            pieces = generator.stream(inputs, max_new_tokens, how, seeds, stops)
            yield Stream(generator.format_prompt(inputs[0]), (piece for (piece,) in pieces))
            return
        written, rewards = texts()
        for index, (prompt, text) in enumerate(zip(inputs, written, strict=True)):
            yield dim(f"--- seed {seeds[index]}" if rewards is None else f"--- reward {rewards[index]:.2f}")
            yield Stream(generator.format_prompt(prompt), [text])

    return Output(rows, blocks(), notes=trained.notes)


@click.command()
@run_argument
@click.argument("question")
@click.option("--shots", type=FILE, help="Few-shot examples: a file with the columns question, answer and steps.")
@click.option("--think", is_flag=True, help="Chain of thought: ask for the steps before the answer.")
@click.option("--samples", default=1, show_default=True, type=AT_LEAST_1, help="Number of texts that vote.")
@click.option("--pattern", help="Regular expression that finds the answer; its first group, if it has one.")
@new_tokens_option(200)
@click.option("--temperature", default=0.7, show_default=True, help="Sampling temperature; a single sample is greedy.")
@seed_option("Random seed of the first sample.")
@prints
def ask(run: Path, question: str, **options: Any) -> Output:
    """Ask a trained RUN a QUESTION. Few-shot, with chain of thought, with a majority vote over several samples.

    \b
    Examples:
      headway ask runs/steps-1 "tom has two cards . he gets five . he doubles them . how many ?" --think
      headway ask runs/language-1 "3 + 4 = ?" --shots sums.jsonl --think --samples 9 --pattern "= (\\d+)"
    """
    from headway.lab.in_context import ask as ask_run
    from headway.runs.run import Run

    replies = ask_run(Run(run), question, **options)
    share = f" ({replies.share:.0%} of the texts)" if len(replies.texts) > 1 else ""
    blocks: list[Block] = [
        Table(["answer", "text"], [(each["answer"], short(each["text"] or "")) for each in replies.texts]),
        f"answer: {replies.answer or 'none found'}{share}",
    ]
    return Output(replies, blocks)
