"""The verbs with which a trained run writes: generate, beam."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text
from rich.tree import Tree as Drawing

from headway.cli.asking import run_argument, short
from headway.cli.output import CONTROL, OutFile, console, json_option, next_step, print_json, print_table, warn
from headway.errors import Problem

if TYPE_CHECKING:
    from headway.generate.prompt import Shot
    from headway.lab.beams import Node
    from headway.tasks.writer import Writer

STYLES = {"kept": "green", "finished": "bold blue", "dropped": "dim", "root": "bold"}


@click.command()
@run_argument
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1), help="Tokens to write at most.")
@click.option("--temperature", default=0.8, show_default=True, help="Below 1 surer, above 1 bolder; 0: the best token.")
@click.option("--top-k", type=int, help="Choose among so many best tokens.")
@click.option("--top-p", type=float, help="Choose among the fewest best tokens with this probability together.")
@click.option("--min-p", type=float, help="Choose among tokens at least this share as likely as the best.")
@click.option("--repetition", default=1.0, show_default=True, help="Above 1: what was there becomes less likely.")
@click.option("--stop", "stops", multiple=True, metavar="TEXT", help="Stop before this text; may be given repeatedly.")
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 1 << 40),
    help="Of the first text; the next ones follow.",
)
@click.option("--count", default=1, show_default=True, type=click.IntRange(1), help="Texts for each prompt.")
@click.option("--int8", is_flag=True, help="Matrices rounded to whole numbers: faster on a CPU, a little less exact.")
@json_option
def generate(
    run: Path,
    prompts: tuple[str, ...],
    limit: int,
    stops: tuple[str, ...],
    seed: int,
    count: int,
    int8: bool,
    as_json: bool,
    **sampling: Any,
) -> None:
    """Have a trained RUN go on from each PROMPT, or begin by itself.

    \b
    Examples:
      headway generate runs/language-1 "def main("
      headway generate runs/language-1 "import " --temperature 0.5 --top-k 40 --count 3 --stop "\\n\\n"
    """
    from headway.generate import Sampling
    from headway.run import Run

    trained = Run(run)
    if trained.task.asked_with == "translate":
        raise Problem(f"{run} translates: headway translate {run} TEXT")
    writer = replace(trained.task.writer(trained.model()), int8=int8)
    for message in trained.notes:
        warn(message)
    asked = [prompt for prompt in prompts or ("",) for _ in range(count)]
    for prompt in asked:
        writer.tokens_of(prompt)  # what is wrong with it is said before anything is printed
    seeds = range(seed, seed + len(asked))
    stops = tuple(stop.encode().decode("unicode_escape") if "\\" in stop else stop for stop in stops)
    pieces = writer.stream(asked, limit, Sampling(**sampling), seeds, stops)
    if len(asked) == 1 and not as_json:
        click.secho(asked[0], bold=True, nl=False)
        for (piece,) in pieces:
            click.echo(clean(piece), nl=False)
        click.echo()
        return
    texts = ["".join(row) for row in zip(*pieces, strict=True)]
    if as_json:
        print_json([{"prompt": prompt, "text": text} for prompt, text in zip(asked, texts, strict=True)])
        return
    for prompt, text, number in zip(asked, texts, seeds, strict=True):
        click.secho(f"--- seed {number}", dim=True)
        click.secho(prompt, bold=True, nl=False)
        click.echo(clean(text))


def clean(text: str) -> str:
    """Without what a model might tell the terminal to do; line breaks and tabs stay."""
    return CONTROL.sub(lambda found: found[0] if found[0] in "\n\t" else "\ufffd", text)


@click.command()
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.argument("prompt", default="")
@click.option("--from", "source", type=click.Path(path_type=Path), help="A tree of probabilities in JSON, no RUN.")
@click.option(
    "--width",
    "widths",
    multiple=True,
    type=click.IntRange(1),
    help="Of the beam; repeatedly: each in turn; left out: 3, or the recipe's.",
)
@click.option("--limit", default=8, show_default=True, type=click.IntRange(1), help="Tokens to search at most.")
@click.option("--best", default=1, show_default=True, type=click.IntRange(1), help="How many sequences to show.")
@click.option("--length-penalty", default=1.0, show_default=True, help="Scores are divided by length to this power.")
@click.option("--groups", default=1, show_default=True, type=click.IntRange(1), help="Cut the beam into groups.")
@click.option("--diversity", default=0.0, show_default=True, help="What a token costs that an earlier group chose.")
@click.option("--svg", type=OutFile(), help="Draw the tree into this file.")
@click.option("--errors", type=click.IntRange(1), help="Measure on so many prompts how often the best is missed.")
@json_option
def beam(
    run: Path | None,
    prompt: str,
    source: Path | None,
    widths: tuple[int, ...],
    limit: int,
    svg: Path | None,
    errors: int | None,
    as_json: bool,
    **shape: Any,
) -> None:
    """Watch beam search: which beginnings are kept, dropped and finished, and with what probability.

    \b
    Examples:
      headway beam runs/language-1 "def main(" --width 3 --svg tree.svg
      headway beam runs/language-1 --errors 50 --limit 4 --width 2
      headway beam --from exam.json --width 1 --width 2
    """
    from headway.generate import Beam
    from headway.run import Run

    if (run is None) == (source is None):
        raise Problem("give either a RUN or --from FILE")
    if source is not None:
        show_trees(searches_of_tree(source, widths or (1, 2), shape), svg, as_json, True, shape["groups"])
        return
    assert run is not None
    trained = Run(run)
    writer = trained.task.writer(trained.model())
    widths = widths or (getattr(writer, "beam", Beam(3)).width,)
    if errors is not None:
        show_errors(trained, writer, errors, limit, widths, as_json)
        return
    show_trees(searches_of_run(writer, prompt, limit, widths, shape), svg, as_json, False, shape["groups"])
    if not as_json:
        next_step("headway", "beam", run, "--errors", 20, "--limit", 4)


def searches_of_run(writer: "Writer", prompt: str, limit: int, widths: tuple[int, ...], shape: Any) -> list[Any]:
    from headway.generate import Beam

    found = []
    for width in widths:
        tree: list[Any] = []
        (best,) = writer.search([prompt], limit, Beam(width, **shape), tree)
        found.append((width, prompt or "(the beginning)", tree, best, writer.name_of, writer.tokenizer.decode))
    return found


def searches_of_tree(source: Path, widths: tuple[int, ...], shape: Any) -> list[Any]:
    from headway.generate import Beam, Tree, beam_search

    written = Tree.load(source)
    found = []
    for width in widths:
        tree: list[Any] = []
        (best,) = beam_search(written, [[0]], written.depth, 0, Beam(width, **shape), tree=tree)
        found.append((width, "(the beginning)", tree, best, written.word, written.text))
    return found


def show_trees(searches: list[Any], svg: Path | None, as_json: bool, explained: bool, groups: int) -> None:
    from headway.lab.beams import grow, in_words, save_svg, visible

    if as_json:
        print_json(
            [
                {
                    "width": width,
                    "looked_at": [{**asdict(each), "token": name(each.token)} for each in tree],
                    "best": [{**asdict(each), "tokens": [name(token) for token in each.tokens]} for each in best],
                }
                for width, _, tree, best, name, _ in searches
            ]
        )
    for width, prompt, tree, best, name, text in searches:
        root = grow(prompt, tree, name)
        if svg is not None:
            save_svg(svg if len(searches) == 1 else svg.with_stem(f"{svg.stem}-{width}"), root)
        if as_json:
            continue
        first = "" if groups == 1 else f", the first of {groups} groups"
        console.print(Text(f"\nwidth {width}{first}", "bold"))
        if explained:
            console.print(Text("\n".join(in_words(width, tree, name))))
        console.print(drawing(root))
        rows = [(visible(text(each.tokens)), math.exp(each.log_probability), each.score) for each in best]
        print_table(["found", "probability", "score"], rows)


def drawing(node: "Node", parent: Drawing | None = None) -> Drawing:
    from headway.lab.beams import visible

    label = Text(visible(node.token), STYLES[node.fate])
    if node.fate != "root":
        label.append(f"  {math.exp(node.gain):.3g}  ", "dim")
        label.append(f"{node.probability:.3g} {node.fate}", STYLES[node.fate])
    branch = Drawing(label) if parent is None else parent.add(label)
    for child in node.children:
        drawing(child, branch)
    return branch


def show_errors(trained: Any, writer: "Writer", count: int, limit: int, widths: tuple[int, ...], as_json: bool) -> None:
    from headway.cli.progress import bars
    from headway.lab.beams import search_errors

    prompts = trained.task.prompts(count)
    rows = []
    with bars() as shown:
        for width in widths:
            for found in search_errors(writer, prompts, limit, width):
                shown(f"width {width}", found.prompts / len(prompts))
            rows.append((width, found.rate, found.lost, found.prompts))
    if as_json:
        names = ("width", "error_rate", "mean_loss", "prompts")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print_table(["width", "best missed", "by (mean log-probability)", "prompts"], rows)


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
    from headway.generate import Sampling
    from headway.generate.prompt import answer_in, majority
    from headway.run import Run

    trained = Run(run)
    writer, task = trained.task.writer(trained.model()), trained.task
    asked = task.question(question, read_shots(shots) if shots else (), think)
    how = Sampling(0.0 if samples == 1 else temperature)
    texts = writer.write([asked] * samples, limit, how, range(seed, seed + samples))
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
    from headway.data.sources import Format, records
    from headway.generate.prompt import Shot

    found = []
    for record in records(path, Format()):
        if record.problem or not {"question", "answer"} <= record.fields.keys():
            raise Problem(f"{path}, line {record.line}: {record.problem or 'there is no question and answer'}")
        found.append(Shot(*(as_text(record.fields.get(name)) for name in Shot._fields)))
    return found


VERBS = [generate, beam, ask]
