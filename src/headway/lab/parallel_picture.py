"""The lesson on parallelism as a picture: for each kind, who has which rows, tokens and weights, and what is sent."""

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headway.config.errors import visible
from headway.lab.trace import in_words

if TYPE_CHECKING:
    from headway.lab.interference import Interference
    from headway.lab.parallel_lesson import Kind, ParallelLesson, PartShare, Span

MOST_PROCESSES = 4  # that are drawn
COLOURS = ("#3949ab", "#00897b", "#ef6c00", "#8e24aa")
RIGHT, WRONG, GREY, INK = "#43a047", "#e53935", "#9e9e9e", "#212121"
LABEL, COLUMN, SENT, ROW, MARGIN = 270, 132, 190, 27, 24
LAST = 300  # the column of the backward pass
BOX = (100, 20)  # of a matrix


def svg_of(lesson: "ParallelLesson") -> str:
    columns = max(drawn(kind) for kind in lesson.kinds)
    width = 2 * MARGIN + LABEL + columns * COLUMN + SENT + LAST
    body, y = [text(MARGIN, 34, f"{lesson.recipe}: what stands where, and what is sent in a step", 19, bold=True)], 62.0
    for kind in lesson.kinds:
        pieces, y = panel(kind, y, columns)
        body += pieces
    pieces, y = neighbour_panel(lesson, y, width)
    body += pieces
    style = "text{font-family:system-ui,sans-serif}"
    frame = f'<rect width="{width}" height="{y:.0f}" fill="#ffffff"/>'
    size = f'viewBox="0 0 {width} {y:.0f}" width="{width}" height="{y:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{frame}{"".join(body)}</svg>\n'


def drawn(kind: "Kind") -> int:
    return min(kind.processes, MOST_PROCESSES)


def panel(kind: "Kind", y: float, columns: int) -> tuple[list[str], float]:
    sent_at = MARGIN + LABEL + columns * COLUMN
    pieces = [text(MARGIN, y + 14, f"{kind.axis}:{kind.processes}", 16, bold=True)]
    pieces.append(text(MARGIN + 110, y + 14, f"shares out {kind.shares_out}", 14, GREY))
    y += 30
    if kind.refused:
        return [*pieces, text(MARGIN, y + 10, f"refused: {kind.refused}", 13, WRONG)], y + 40
    pieces += [text(column(each), y + 10, f"process {each}", 12, COLOURS[each]) for each in range(drawn(kind))]
    if kind.processes > MOST_PROCESSES:
        pieces.append(text(column(drawn(kind)) - 28, y + 10, "…", 12))
    pieces += [text(sent_at, y + 10, "forward", 12, GREY), text(sent_at + SENT, y + 10, "backward", 12, GREY)]
    y += 18
    for label, spans, dim in (("rows of the batch", kind.rows, 0), ("tokens of each row", kind.tokens, 1)):
        pieces += [text(MARGIN, y + 15, label, 13), *boxes(spans[:MOST_PROCESSES], dim, y)]
        y += ROW
    for part in kind.parts:
        pieces += part_row(part, y, sent_at)
        y += ROW
    if kind.gradients:
        pieces += [
            text(MARGIN, y + 15, "after the backward pass", 13),
            text(sent_at + SENT, y + 15, in_words(kind.gradients), 12),
        ]
        y += ROW
    return [*pieces, text(MARGIN, y + 15, kind.in_a_step, 12, GREY)], y + 50


def column(process: int) -> float:
    return MARGIN + LABEL + process * COLUMN


def part_row(part: "PartShare", y: float, sent_at: float) -> Iterator[str]:
    yield text(MARGIN, y + 15, short(part.name), 13)
    weight = part.largest
    if weight is not None:
        yield text(MARGIN + LABEL - 12, y + 15, "×".join(map(str, weight.shape)) or "1", 11, GREY, "end")
        yield from boxes(weight.spans[:MOST_PROCESSES], weight.dim or 0, y)
    for place, counts in ((sent_at, part.forward), (sent_at + SENT, part.backward)):
        if counts:
            yield text(place, y + 15, in_words(counts), 12)


def boxes(spans: Sequence[Sequence["Span"]], dim: int, y: float) -> Iterator[str]:
    """For each process a matrix of which its share is coloured: rows from the top, columns from the left."""
    width, height = BOX
    for process, own in enumerate(spans):
        x = column(process)
        for start, end in own:
            along = (0.0, 1.0, start, end) if dim == 0 else (start, end, 0.0, 1.0)
            left, right, top, bottom = along
            place = f'x="{x + left * width:.1f}" y="{y + top * height:.1f}"'
            size = f'width="{(right - left) * width:.1f}" height="{(bottom - top) * height:.1f}"'
            yield f'<rect {place} {size} fill="{COLOURS[process]}" fill-opacity="0.75"/>'
        frame = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        yield f'<rect {frame} fill="none" stroke="{GREY}" stroke-width="0.8"/>'


def neighbour_panel(lesson: "ParallelLesson", y: float, width: float) -> tuple[list[str], float]:
    pieces = [text(MARGIN, y + 14, "a network that also reads its neighbours", 16, bold=True)]
    pieces.append(
        text(
            MARGIN,
            y + 34,
            "after its first layer, and after the last block: tokens that differ from one process",
            13,
            GREY,
        )
    )
    y += 52
    strip = width - 2 * MARGIN - LABEL - 60
    for result in lesson.neighbours:
        pieces.append(text(MARGIN, y + 14, result.title, 13, bold=True))
        pieces.append(text(MARGIN, y + 31, verdict(result), 12, RIGHT if result.is_right else WRONG))
        for row, (label, errors) in enumerate((("first", result.first), ("last", result.last))):
            pieces += tokens(errors, result, MARGIN + LABEL + 60, y + 4 + 18 * row, strip)
            if errors:
                pieces.append(text(MARGIN + LABEL + 50, y + 14 + 18 * row, label, 11, GREY, "end"))
        y += 54
    return pieces, y + 10


def tokens(errors: Sequence[float], result: "Interference", x: float, y: float, width: float) -> Iterator[str]:
    if not errors:
        return
    each = width / len(errors)
    for place, error in enumerate(errors):
        colour = WRONG if error > result.exact else RIGHT
        size = f'width="{max(each - 1, 0.5):.2f}" height="13"'
        yield f'<rect x="{x + place * each:.2f}" y="{y}" {size} fill="{colour}" fill-opacity="0.8"/>'
    for cut in result.cuts:
        at = x + cut * each - 0.5
        yield f'<line x1="{at:.2f}" y1="{y - 3}" x2="{at:.2f}" y2="{y + 16}" stroke="{INK}" stroke-width="1.5"/>'


def verdict(result: "Interference") -> str:
    if result.refused:
        return f"refused: {short(result.refused, 120)}"
    return f"loss off by {result.loss:.1e}, gradient by {result.gradient:.1e}"


def short(words: str, most: int = 34) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def text(
    x: float, y: float, words: str, size: int, colour: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {where} fill="{colour}"{weight}>{html.escape(visible(words))}</text>'
