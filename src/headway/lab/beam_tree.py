"""The tree that a beam search grows: in words, as a drawing, and how often the search misses the best."""

import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.data.storage import write_whole
from headway.generation.beam import Beam, Candidate
from headway.generation.generator import Generator

COLOURS = {"kept": "#1a7f37", "finished": "#0550ae", "dropped": "#9a9a9a", "root": "#333333"}
ROUNDING = 1e-4  # log-probabilities of the same sequence, worked out alone and in a batch, may differ by this
COLUMN, ROW = 190, 34  # pixels from one step to the next, and from one leaf to the next


@dataclass
class Node:
    token: str
    log_probability: float
    gain: float  # of its last token
    fate: str
    children: list["Node"] = field(default_factory=list)

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)


def grow(prompt: str, candidates: Sequence[Candidate], name: Callable[[int], str]) -> Node:
    """Candidates as a tree; ``name`` says what a token is called."""
    root = Node(prompt, 0.0, 0.0, "root")
    kept, place = [root], 0
    following: list[Node] = []
    for each in candidates:
        if each.step != place:
            kept, following, place = following, [], each.step
        parent = kept[each.parent]
        gain = each.log_probability - parent.log_probability
        node = Node(name(each.token), each.log_probability, gain, each.fate)
        parent.children.append(node)
        if each.fate == "kept":
            following.append(node)
    return root


def in_words(width: int, candidates: Sequence[Candidate], name: Callable[[int], str]) -> Iterator[str]:
    """The search step by step, as one would write it in an exam."""
    kept: list[tuple[str, float]] = [("", 0.0)]
    steps = max((each.step for each in candidates), default=-1) + 1
    for place in range(steps):
        now = [each for each in candidates if each.step == place]
        following = []
        yield f"Step {place + 1}, width {width}:"
        for each in now:
            before, total = kept[each.parent]
            text = f"{before} {name(each.token)}".strip()
            product = f"{math.exp(total):.4g} × {math.exp(each.log_probability - total):.4g}"
            yield f"  {text}: {product} = {math.exp(each.log_probability):.4g}, {each.fate}"
            if each.fate == "kept":
                following.append((text, each.log_probability))
        kept = following


def save_svg(path: Path, root: Node) -> None:
    """Steps from left to right; green is kept, blue finished, grey dropped."""
    places: dict[int, tuple[float, float]] = {}
    leaves = 0

    def settle(node: Node, depth: int) -> float:
        nonlocal leaves
        if node.children:
            rows = [settle(child, depth + 1) for child in node.children]
            row = (rows[0] + rows[-1]) / 2
        else:
            row, leaves = float(leaves), leaves + 1
        places[id(node)] = 20.0 + depth * COLUMN, 30.0 + row * ROW
        return row

    settle(root, 0)
    width = max(x for x, _ in places.values()) + COLUMN
    body = "".join(drawn(node, places) for node in walk(root))
    style = "text{font:14px system-ui,sans-serif}"
    size = f'width="{width:.0f}" height="{30 + leaves * ROW}"'
    write_whole(path, f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{body}</svg>\n')


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def drawn(node: Node, places: dict[int, tuple[float, float]]) -> str:
    x, y = places[id(node)]
    lines = "".join(line(x + 4, y, *places[id(child)], child.fate) for child in node.children)
    label = node.token if node.fate == "root" else f"{node.token}  {node.probability:.3g}"
    dot = f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" fill="{COLOURS[node.fate]}"/>'
    text = f'<text x="{x + 8:.0f}" y="{y - 6:.0f}" fill="{COLOURS[node.fate]}">{html.escape(visible(label))}</text>'
    return lines + dot + text


def line(x: float, y: float, to_x: float, to_y: float, fate: str) -> str:
    dashes = "4 3" if fate == "dropped" else "none"
    ends = f'x1="{x:.0f}" y1="{y:.0f}" x2="{to_x - 6:.0f}" y2="{to_y:.0f}"'
    return f'<line {ends} stroke="{COLOURS[fate]}" stroke-dasharray="{dashes}"/>'


def visible(text: str) -> str:
    """Spaces and line breaks as signs that can be seen."""
    return text.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")


@dataclass(frozen=True)
class SearchErrors:
    prompts: int
    missed: int
    lost: float  # mean log-probability that was lost where the best was missed

    @property
    def rate(self) -> float:
        return self.missed / self.prompts


def search_errors(generator: Generator, prompts: Sequence[str], limit: int, width: int) -> Iterator[SearchErrors]:
    """How often a beam misses the most likely sequence of up to ``limit`` tokens, after each prompt."""
    missed, lost = 0, 0.0
    for count, prompt in enumerate(prompts, start=1):
        ((found,),) = generator.search([prompt], limit, Beam(width, length_penalty=0.0, early=False))
        better = generator.exact(prompt, limit, found.log_probability + ROUNDING)
        if better is not None:
            missed += 1
            lost += better.log_probability - found.log_probability
        yield SearchErrors(count, missed, lost / max(missed, 1))
