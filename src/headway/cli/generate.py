"""generate, ask."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from headway.cli.options import AT_LEAST_1, FILE, Renamed, engine_option, new_tokens_option, run_argument, seed_option
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
@engine_option
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
    engine: str,
    **sampling: Any,
) -> Output:
    """Generate text with a trained RUN. It continues each PROMPT, or starts a new text.

    \b
    Examples:
      headway generate runs/language-1 "def main("
      headway generate runs/language-1 "import " --temperature 0.5 --top-k 40 --count 3 --stop "\\n\\n"
      headway generate runs/language-1 "def main(" --temperature 0 --engine ctranslate2
      headway generate runs/sft-1 "the acting was" --best-of 16 --reward runs/reward-1
    """
    from headway.api.model import load

    if (best_of is None) != (reward is None):
        raise Problem("--best-of and --reward go together: n texts are generated, and the reward chooses the best")
    model = load(run)
    inputs = [prompt for prompt in prompts or ("",) for _ in range(count)]
    formatted = [model.format_prompt(prompt) for prompt in inputs]  # a bad prompt is refused before anything is printed
    stops = tuple(unescaped(stop) for stop in stops)
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "seed": seed, "stop": stops, "int8": int8, **sampling}

    notes = [*model.run.notes, *model.doubts(prompts)]
    if engine != "headway":
        if reward is not None:
            raise Problem(f"--engine {engine} writes the most likely tokens: leave out --best-of and --reward")
        options["engine"] = engine
        notes.append(model.engine(engine).note)

    def rows() -> list[dict[str, Any]]:
        if best_of is not None and reward is not None:
            return [vars(each) for each in model.best_of(inputs, best_of, reward, **options)]
        texts = model.generate(inputs, **options)
        return [{"prompt": prompt, "text": text} for prompt, text in zip(inputs, texts, strict=True)]

    def blocks() -> Iterator[Block]:
        if len(inputs) == 1 and reward is None and engine == "headway":
            yield Stream(formatted[0], model.stream(inputs[0], **options))
            return
        for number, (prompt, row) in enumerate(zip(formatted, rows(), strict=True)):
            yield dim(f"--- reward {row['reward']:.2f}" if "reward" in row else f"--- seed {seed + number}")
            yield Stream(prompt, [row["text"]])

    return Output(rows, blocks(), notes=notes)


def unescaped(text: str) -> str:
    """A backslash with n, r or t, as typed in a shell, is a line break or a tab."""
    return re.sub(r"\\([nrt\\])", lambda match: {"n": "\n", "r": "\r", "t": "\t"}.get(match[1], match[1]), text)


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
    from headway.api.model import load

    replies = load(run).ask(question, **{name: value for name, value in options.items() if value is not None})
    share = f" ({replies.share:.0%} of the texts)" if len(replies.texts) > 1 else ""
    blocks: list[Block] = [
        Table(["answer", "text"], [(each["answer"], short(each["text"] or "")) for each in replies.texts]),
        f"answer: {replies.answer or 'none found'}{share}",
    ]
    return Output(replies, blocks)
