"""parallel."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import OutFile, recipe_argument, settings_argument
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, dim, prints

if TYPE_CHECKING:
    from headway.api.parallel import Interference, Kind, ParallelLesson, PartShare

CELLS, MOST_PROCESSES, MOST_TOKENS = 12, 4, 72


@click.command()
@recipe_argument
@settings_argument
@click.option(
    "--processes", type=click.IntRange(2, 64), default=2, show_default=True, help="Of each kind, unless settings say."
)
@click.option("--svg", type=OutFile(), help="Draw it into this file.")
@prints
def parallel(recipe: str, settings: tuple[str, ...], processes: int, svg: Path | None) -> Output:
    """Explain what each kind of parallelism does to the model of a RECIPE.

    Which weights stand where, what is sent at which part and how many bytes, for one process of each kind. And what
    becomes of a feed-forward network that also reads its neighbours: computed, not drawn from memory.

    \b
    Examples:
      headway parallel parity --svg parallel.svg
      headway parallel parity model.feedforward=swiglu train.parallel=tensor:4
    """
    from headway.api.parallel import explain_parallel

    lesson = explain_parallel(recipe, settings=settings, processes=processes, progress=following())
    if svg is not None:
        lesson.save(svg)
    others = [setting for setting in settings if not setting.startswith(("train.parallel=", "train.processes="))]
    grid = next((f"{kind.axis}:{kind.processes}" for kind in lesson.kinds if not kind.refused), "data:2")
    return Output(lesson, report(lesson, svg), ["headway", "plan", recipe, *others, f"train.parallel={grid}"])


def report(lesson: "ParallelLesson", svg: Path | None) -> Iterator[Block]:
    for kind in lesson.kinds:
        yield f"{kind.axis}:{kind.processes} shares out {kind.shares_out}"
        if kind.refused:
            yield f"  refused: {kind.refused}"
        else:
            yield Table(*table_of(kind))
            yield dim(kind.in_a_step)
            yield ""
    yield "A network that also reads its neighbours, beside one process, in float64:"
    yield Table(["", "loss off by", "gradient off by", ""], [row_of(each) for each in lesson.neighbours])
    yield "Its tokens: · as in one process, █ wrong, | where a sequence is cut."
    for each in lesson.neighbours:
        if each.first:
            yield each.title
            yield f"  after the first layer  {line_of(each.first, each)}"
            yield f"  after the last block   {line_of(each.last, each)}"
    if lesson.changes:
        yield dim(f"computed with {lesson.changes}")
    if svg is not None:
        yield f"picture: {svg}"


def table_of(kind: "Kind") -> tuple[list[str], list[list[str]]]:
    shown = min(kind.processes, MOST_PROCESSES)
    names = [f"process {number}" for number in range(shown)]
    names[-1] += " …" if kind.processes > shown else ""
    rows = [
        ["rows of the batch", "", *bars(kind.rows), "", ""],
        ["tokens of each row", "", *bars(kind.tokens), "", ""],
        *(part_row(part, shown) for part in kind.parts),
    ]
    if kind.gradients:
        rows.append(["after the backward pass", "", *[""] * shown, "", kind.gradients_in_words])
    return ["", "weights", *names, "forward", "backward"], rows


def part_row(part: "PartShare", shown: int) -> list[str]:
    weight = part.largest
    size = "" if weight is None else "×".join(map(str, weight.shape)) or "1"
    drawn = [""] * shown if weight is None else bars(weight.spans)
    return [part.name, size, *drawn, *part.in_words]


def bars(spans: Sequence[Sequence[tuple[float, float]]]) -> list[str]:
    """What each process has of a whole."""
    return [bar(own) for own in spans[:MOST_PROCESSES]]


def bar(own: Sequence[tuple[float, float]]) -> str:
    middles = ((cell + 0.5) / CELLS for cell in range(CELLS))
    return "".join("█" if any(start <= middle < end for start, end in own) else "·" for middle in middles)


def row_of(result: "Interference") -> list[str]:
    if result.refused:
        return [result.title, "", "", f"refused: {result.refused}"]
    return [result.title, f"{result.loss:.1e}", f"{result.gradient:.1e}", "right" if result.is_right else "wrong"]


def line_of(errors: Sequence[float], result: "Interference") -> str:
    """A sign for each token, or for each few."""
    each = -(-len(errors) // MOST_TOKENS)
    cuts, line = {*result.cuts}, ""
    for start in range(0, len(errors), each):
        line += "|" if cuts & {*range(start, start + each)} else ""
        line += "█" if max(errors[start : start + each]) > result.exact else "·"
    return line
