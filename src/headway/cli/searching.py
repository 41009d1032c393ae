"""The verb that shows how a beam search goes: beam."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text
from rich.tree import Tree as Drawing

from headway.cli.output import OutFile, console, json_option, next_step, print_json, print_table
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.generation.generator import Generator
    from headway.lab.beam_tree import Node

STYLES = {"kept": "green", "finished": "bold blue", "dropped": "dim", "root": "bold"}


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
    from headway.generation import Beam
    from headway.runs.run import Run
    from headway.tasks.abilities import Generates, Translates, can, need

    if (run is None) == (source is None):
        raise Problem("give either a RUN or --from FILE")
    if source is not None:
        show_trees(searches_of_tree(source, widths or (1, 2), shape), svg, as_json, True, shape["groups"])
        return
    assert run is not None
    trained = Run(run)
    generator = need(trained.task, Generates).generator(trained.model())
    usual = need(trained.task, Translates).generator(trained.model()).beam if can(trained.task, Translates) else Beam(3)
    widths = widths or (usual.width,)
    if errors is not None:
        show_errors(trained, generator, errors, limit, widths, as_json)
        return
    show_trees(searches_of_run(generator, prompt, limit, widths, shape), svg, as_json, False, shape["groups"])
    if not as_json:
        next_step("headway", "beam", run, "--errors", 20, "--limit", 4)


def searches_of_run(generator: "Generator", prompt: str, limit: int, widths: tuple[int, ...], shape: Any) -> list[Any]:
    from headway.generation import Beam

    found = []
    for width in widths:
        tree: list[Any] = []
        (best,) = generator.search([prompt], limit, Beam(width, **shape), tree)
        found.append((width, prompt or "(the beginning)", tree, best, generator.name_of, generator.tokenizer.decode))
    return found


def searches_of_tree(source: Path, widths: tuple[int, ...], shape: Any) -> list[Any]:
    from headway.generation import Beam, Tree, beam_search

    written = Tree.load(source)
    found = []
    for width in widths:
        tree: list[Any] = []
        (best,) = beam_search(written, [[0]], written.depth, 0, Beam(width, **shape), tree=tree)
        found.append((width, "(the beginning)", tree, best, written.word, written.text))
    return found


def show_trees(searches: list[Any], svg: Path | None, as_json: bool, explained: bool, groups: int) -> None:
    from headway.lab.beam_tree import grow, in_words, save_svg, visible

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
    from headway.lab.beam_tree import visible

    label = Text(visible(node.token), STYLES[node.fate])
    if node.fate != "root":
        label.append(f"  {math.exp(node.gain):.3g}  ", "dim")
        label.append(f"{node.probability:.3g} {node.fate}", STYLES[node.fate])
    branch = Drawing(label) if parent is None else parent.add(label)
    for child in node.children:
        drawing(child, branch)
    return branch


def show_errors(
    trained: Any, generator: "Generator", count: int, limit: int, widths: tuple[int, ...], as_json: bool
) -> None:
    from headway.cli.progress import bars
    from headway.lab.beam_tree import search_errors
    from headway.tasks.abilities import Generates, need

    prompts = need(trained.task, Generates).prompts(count)
    rows = []
    with bars() as shown:
        for width in widths:
            for found in search_errors(generator, prompts, limit, width):
                shown(f"width {width}", found.prompts / len(prompts))
            rows.append((width, found.rate, found.lost, found.prompts))
    if as_json:
        names = ("width", "error_rate", "mean_loss", "prompts")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print_table(["width", "best missed", "by (mean log-probability)", "prompts"], rows)


VERBS = [beam]
