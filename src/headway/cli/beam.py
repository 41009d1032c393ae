"""beam."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from headway.cli.options import AT_LEAST_1, FILE, OutFile, new_tokens_option, to_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, prints
from headway.config.errors import Problem

if TYPE_CHECKING:
    from rich.tree import Tree as Drawing

    from headway.api.inspection import BeamSearch, Node

STYLES = {"kept": "green", "finished": "bold blue", "dropped": "dim", "root": "bold"}


@click.command()
@click.argument("run", type=FILE, required=False)
@click.argument("prompt", default="")
@click.option("--from", "source", type=FILE, help="Search in a tree of probabilities (JSON) instead of a RUN.")
@click.option(
    "--width", "widths", multiple=True, type=AT_LEAST_1, help="Beam width; repeatable; default: 3, or the recipe's."
)
@new_tokens_option(8)
@click.option("--best", default=1, show_default=True, type=AT_LEAST_1, help="Number of hypotheses to show.")
@click.option("--length-penalty", default=1.0, show_default=True, help="Scores are divided by length to this power.")
@click.option("--groups", default=1, show_default=True, type=AT_LEAST_1, help="Beam groups of diverse beam search.")
@click.option("--diversity", default=0.0, show_default=True, help="Penalty for a token that an earlier group chose.")
@to_option
@click.option("--svg", type=OutFile(), help="Draw the tree into this file.")
@click.option("--errors", type=AT_LEAST_1, help="Measure on this many prompts how often the search misses the best.")
@prints
def beam(
    run: Path | None,
    prompt: str,
    source: Path | None,
    widths: tuple[int, ...],
    max_new_tokens: int,
    to: str | None,
    svg: Path | None,
    errors: int | None,
    **options: Any,
) -> Output:
    """Watch a beam search. Which hypotheses are kept, dropped and finished, and how likely are they?

    \b
    Examples:
      headway beam runs/language-1 "def main(" --width 3 --svg tree.svg
      headway beam runs/language-1 --errors 50 --max-new-tokens 4 --width 2
      headway beam --from exam.json --width 1 --width 2
    """
    from headway.api.model import load
    from headway.api.studies import search_written_tree

    if (run is None) == (source is None):
        raise Problem("give either a RUN or --from FILE")
    if source is not None:
        searches = search_written_tree(source, widths=widths or (1, 2), **options)
        return show_searches(searches, svg, options["groups"], True)
    assert run is not None
    model = load(run)
    if errors is not None:
        rates = model.search_errors(errors, max_new_tokens=max_new_tokens, widths=widths, to=to, progress=following())
        columns = ["width", "best missed", "by (mean log-probability)", "prompts"]
        return Output(rates, [Table(columns, [tuple(asdict(each).values()) for each in rates])])
    searches = model.beam_trees(prompt, widths=widths, max_new_tokens=max_new_tokens, to=to, **options)
    more = ["headway", "beam", run, "--errors", 20, "--max-new-tokens", 4]
    return show_searches(searches, svg, options["groups"], False, more)


def show_searches(
    searches: "list[BeamSearch]", svg: Path | None, groups: int, explained: bool, more: list[object] | None = None
) -> Output:
    for each in searches:
        if svg is not None:
            each.save(svg if len(searches) == 1 else svg.with_stem(f"{svg.stem}-{each.width}"))
    data = [
        {
            "width": each.width,
            "looked_at": [
                {
                    "place": candidate.step,
                    "parent": candidate.parent,
                    "token": each.name(candidate.token),
                    "log_probability": candidate.log_probability,
                    "fate": candidate.fate,
                }
                for candidate in each.candidates
            ],
            "best": [{**asdict(one), "tokens": [each.name(token) for token in one.tokens]} for one in each.best],
        }
        for each in searches
    ]
    return Output(data, (block for each in searches for block in report(each, groups, explained)), more or ())


def report(search: "BeamSearch", groups: int, explained: bool) -> Iterator[Block]:
    from headway.api.inspection import visible

    first = "" if groups == 1 else f", the first of {groups} groups"
    yield Text(f"\nwidth {search.width}{first}", "bold")
    if explained:
        yield Text("\n".join(search.step_by_step()))
    yield draw(search.root())
    rows = [(visible(search.text(each.tokens)), math.exp(each.log_probability), each.score) for each in search.best]
    yield Table(["hypothesis", "probability", "score"], rows)


def draw(node: "Node", parent: "Drawing | None" = None) -> "Drawing":
    from rich.tree import Tree as Drawing

    from headway.api.inspection import visible

    label = Text(visible(node.token), STYLES[node.fate])
    if node.fate != "root":
        label.append(f"  {math.exp(node.gain):.3g}  ", "dim")
        label.append(f"{node.probability:.3g} {node.fate}", STYLES[node.fate])
    branch = Drawing(label) if parent is None else parent.add(label)
    for child in node.children:
        draw(child, branch)
    return branch
