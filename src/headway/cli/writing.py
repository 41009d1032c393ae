"""The verbs with which a trained run writes: generate, ask."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.asking import run_argument, short
from headway.cli.output import CONTROL, console, json_option, print_json, print_table, warn
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.generation.prompts import Shot


@click.command()
@run_argument
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option(
    "--limit", default=200, show_default=True, type=click.IntRange(1, 1_000_000), help="Tokens to write at most."
)
@click.option("--temperature", default=0.8, show_default=True, help="Below 1 surer, above 1 bolder; 0: the best token.")
@click.option("--top-k", type=int, help="Choose among so many best tokens.")
@click.option("--top-p", type=float, help="Choose among the fewest best tokens with this probability together.")
@click.option("--min-p", type=float, help="Choose among tokens at least this share as likely as the best.")
@click.option("--repetition", "repetition_penalty", default=1.0, show_default=True, help="Repetition penalty; 1: none.")
@click.option("--stop", "stops", multiple=True, metavar="TEXT", help="Stop before this text; may be given repeatedly.")
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 1 << 40),
    help="Of the first text; the next ones follow.",
)
@click.option("--count", default=1, show_default=True, type=click.IntRange(1, 10_000), help="Texts for each prompt.")
@click.option("--best-of", type=click.IntRange(1), help="Write so many for each text, and keep the best by --reward.")
@click.option("--reward", help="What is best: a run of reward, RUN:LABEL of classify, a function, or a rule.")
@click.option("--int8", is_flag=True, help="Matrices rounded to whole numbers: faster on a CPU, a little less exact.")
@json_option
def generate(
    run: Path,
    prompts: tuple[str, ...],
    limit: int,
    stops: tuple[str, ...],
    seed: int,
    count: int,
    best_of: int | None,
    reward: str | None,
    int8: bool,
    as_json: bool,
    **sampling: Any,
) -> None:
    """Have a trained RUN go on from each PROMPT, or begin by itself.

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
        raise Problem("--best-of and --reward go together: so many are written, and the reward says which is best")
    give = None if reward is None else reward_of(reward, "--reward", Run)

    trained = Run(run)
    if can(trained.task, Translates):
        raise Problem(f"{run} translates: headway translate {run} TEXT")
    generator = replace(need(trained.task, Generates).generator(trained.model()), int8=int8)
    for message in trained.notes:
        warn(message)
    asked = [prompt for prompt in prompts or ("",) for _ in range(count)]
    for prompt in asked:
        generator.tokens_of(prompt)  # what is wrong with it is said before anything is printed
    seeds = range(seed, seed + len(asked))
    stops = tuple(stop.encode().decode("unicode_escape") if "\\" in stop else stop for stop in stops)
    how = Sampling(**sampling)
    if len(asked) == 1 and give is None and not as_json:
        click.secho(generator.format_prompt(asked[0]), bold=True, nl=False)
        for (piece,) in generator.stream(asked, limit, how, seeds, stops):
            click.echo(clean(piece), nl=False)
        click.echo()
        return
    rewards: list[float] | None = None
    if give is None:
        texts = generator.write(asked, limit, how, seeds, stops)
    else:
        texts, rewards = best_texts(generator, asked, best_of or 1, give, limit, how, seed, stops)
    if as_json:
        given: list[dict[str, float]] = [{}] * len(texts) if rewards is None else [{"reward": each} for each in rewards]
        rows = zip(asked, texts, given, strict=True)
        print_json([{"prompt": prompt, "text": text, **own} for prompt, text, own in rows])
        return
    show_texts([generator.format_prompt(prompt) for prompt in asked], texts, seeds, rewards)


def show_texts(framed: Sequence[str], texts: Sequence[str], seeds: Sequence[int], rewards: list[float] | None) -> None:
    """Prompts as the model reads them, and what follows."""
    for place, (prompt, text) in enumerate(zip(framed, texts, strict=True)):
        about = f"seed {seeds[place]}" if rewards is None else f"reward {rewards[place]:.2f}"
        click.secho(f"--- {about}", dim=True)
        click.secho(prompt, bold=True, nl=False)
        click.echo(clean(text))


def clean(text: str) -> str:
    """Without what a model might tell the terminal to do; line breaks and tabs stay."""
    return CONTROL.sub(lambda found: found[0] if found[0] in "\n\t" else "\ufffd", text)


@click.command()
@run_argument
@click.argument("question")
@click.option("--shots", type=click.Path(path_type=Path), help="Worked examples: a file with question, answer, steps.")
@click.option("--think", is_flag=True, help="Ask for the steps, and read the answer behind them.")
@click.option("--samples", default=1, show_default=True, type=click.IntRange(1), help="Texts that vote for an answer.")
@click.option("--pattern", help="A regular expression for the answer; its first group, if it has one.")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1), help="Tokens to write at most.")
@click.option("--temperature", default=0.7, show_default=True, help="Of the samples; one alone takes the best token.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 1 << 40), help="Of the first text.")
@json_option
def ask(
    run: Path,
    question: str,
    shots: Path | None,
    think: bool,
    samples: int,
    pattern: str | None,
    limit: int,
    temperature: float,
    seed: int,
    as_json: bool,
) -> None:
    """Ask a trained RUN a QUESTION: with examples, with steps written down, with a vote among several texts.

    \b
    Examples:
      headway ask runs/steps-1 "tom has two cards . he gets five . he doubles them . how many ?" --think
      headway ask runs/language-1 "3 + 4 = ?" --shots sums.jsonl --think --samples 9 --pattern "= (\\d+)"
    """
    from headway.generation import Sampling
    from headway.generation.prompts import answer_in, majority
    from headway.runs.run import Run
    from headway.tasks.abilities import Generates, need

    trained = Run(run)
    task = need(trained.task, Generates)
    generator = task.generator(trained.model())
    asked = task.question(question, read_shots(shots) if shots else (), think)
    how = Sampling(0.0 if samples == 1 else temperature)
    texts = generator.write([asked] * samples, limit, how, range(seed, seed + samples))
    answers = [answer_in(text, pattern or task.answer_pattern) for text in texts]
    vote = majority(answers)
    if as_json:
        found = [{"text": text, "answer": answer} for text, answer in zip(texts, answers, strict=True)]
        print_json({"prompt": asked, "answer": vote.answer, "share": vote.share, "texts": found})
        return
    print_table(["answer", "text"], [(answer, short(text)) for answer, text in zip(answers, texts, strict=True)])
    console.print(
        f"answer: {vote.answer or 'none was found'}" + (f" ({vote.share:.0%} of the texts)" if samples > 1 else "")
    )


def read_shots(path: Path) -> "list[Shot]":
    from headway.data.examples import as_text
    from headway.data.readers import Format, records
    from headway.generation.prompts import Shot

    found = []
    for record in records(path, Format()):
        if record.problem or not {"question", "answer"} <= record.fields.keys():
            raise Problem(f"{path}, line {record.line}: {record.problem or 'there is no question and answer'}")
        found.append(Shot(*(as_text(record.fields.get(name)) for name in Shot._fields)))
    return found


VERBS = [generate, ask]
