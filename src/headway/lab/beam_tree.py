"""The tree of a beam search: step by step, as a drawing, and how often the search misses the best sequence."""

import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from headway.data.files import Progress, silent
from headway.data.storage import write_whole
from headway.generation import Tree, beam_search
from headway.generation.beam import Beam, Candidate, Hypothesis
from headway.generation.generator import Generator
from headway.runs.run import Run
from headway.tasks.abilities import Generates, Translates, can, need

COLOURS = {"kept": "#1a7f37", "finished": "#0550ae", "dropped": "#9a9a9a", "root": "#333333"}
ROUNDING = 1e-4  # log-probabilities of a sequence computed alone and in a batch may differ by this
COLUMN, ROW = 190, 34  # pixels between steps, and between leaves
DEFAULT_WIDTH = 3


@dataclass(frozen=True)
class BeamSearch:
    """A search that was recorded."""

    width: int
    prompt: str
    candidates: list[Candidate]
    best: list[Hypothesis]
    name: Callable[[int], str]  # of a token
    text: Callable[[list[int]], str]  # of a sequence

    def root(self) -> "Node":
        """The candidates as a tree."""
        root = Node(self.prompt, 0.0, 0.0, "root")
        kept, step = [root], 0
        following: list[Node] = []
        for candidate in self.candidates:
            if candidate.step != step:
                kept, following, step = following, [], candidate.step
            parent = kept[candidate.parent]
            gain = candidate.log_probability - parent.log_probability
            node = Node(self.name(candidate.token), candidate.log_probability, gain, candidate.fate)
            parent.children.append(node)
            if candidate.fate == "kept":
                following.append(node)
        return root

    def step_by_step(self) -> Iterator[str]:
        """The search as one would write it in an exam."""
        kept: list[tuple[str, float]] = [("", 0.0)]
        steps = max((candidate.step for candidate in self.candidates), default=-1) + 1
        for step in range(steps):
            following = []
            yield f"Step {step + 1}, width {self.width}:"
            for candidate in (each for each in self.candidates if each.step == step):
                before, total = kept[candidate.parent]
                text = f"{before} {self.name(candidate.token)}".strip()
                product = f"{math.exp(total):.4g} × {math.exp(candidate.log_probability - total):.4g}"
                yield f"  {text}: {product} = {math.exp(candidate.log_probability):.4g}, {candidate.fate}"
                if candidate.fate == "kept":
                    following.append((text, candidate.log_probability))
            kept = following

    def save(self, path: str | Path) -> None:
        """Draw the tree as SVG."""
        write_whole(Path(path), self._repr_svg_())

    def _repr_svg_(self) -> str:
        return svg_of(self.root())


def search_run(
    run: Run,
    prompt: str,
    max_new_tokens: int,
    widths: Sequence[int] = (),
    to: str | None = None,
    **options: object,
) -> list[BeamSearch]:
    """Search with a trained run, once for each beam width; ``options`` are those of Beam."""
    model = run.network
    generator = need(run.task, Generates).generator(model).into(to)
    searches = []
    for width in widths or usual_widths(run, model):
        tree: list[Candidate] = []
        (best,) = generator.search([prompt], max_new_tokens, Beam(width, **options), tree)  # type: ignore[arg-type]
        title = prompt or "(the beginning)"
        searches.append(BeamSearch(width, title, tree, best, generator.name_of, generator.tokenizer.decode))
    return searches


def usual_widths(run: Run, model: nn.Module) -> tuple[int, ...]:
    if can(run.task, Translates):
        return (need(run.task, Translates).generator(model).beam.width,)
    return (DEFAULT_WIDTH,)


def search_tree(source: Path, widths: Sequence[int], **options: object) -> list[BeamSearch]:
    """Search in a tree of probabilities, written by hand."""
    written = Tree.load(source)
    searches = []
    for width in widths:
        tree: list[Candidate] = []
        beam = Beam(width, **options)  # type: ignore[arg-type]
        (best,) = beam_search(written, [[0]], written.depth, 0, beam, tree=tree)
        searches.append(BeamSearch(width, "(the beginning)", tree, best, written.word, written.text))
    return searches


@dataclass
class Node:
    token: str
    log_probability: float
    gain: float  # log-probability of its last token
    fate: str
    children: list["Node"] = field(default_factory=list)

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)


def svg_of(root: Node) -> str:
    """Steps from left to right; green is kept, blue finished, grey dropped."""
    positions: dict[int, tuple[float, float]] = {}
    leaves = 0

    def arrange(node: Node, depth: int) -> float:
        nonlocal leaves
        if node.children:
            rows = [arrange(child, depth + 1) for child in node.children]
            row = (rows[0] + rows[-1]) / 2
        else:
            row, leaves = float(leaves), leaves + 1
        positions[id(node)] = 20.0 + depth * COLUMN, 30.0 + row * ROW
        return row

    arrange(root, 0)
    width = max(x for x, _ in positions.values()) + COLUMN
    body = "".join(svg_node(node, positions) for node in walk(root))
    style = "text{font:14px system-ui,sans-serif}"
    size = f'width="{width:.0f}" height="{30 + leaves * ROW}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{body}</svg>\n'


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def svg_node(node: Node, positions: dict[int, tuple[float, float]]) -> str:
    x, y = positions[id(node)]
    lines = "".join(svg_line(x + 4, y, *positions[id(child)], child.fate) for child in node.children)
    label = node.token if node.fate == "root" else f"{node.token}  {node.probability:.3g}"
    dot = f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" fill="{COLOURS[node.fate]}"/>'
    text = f'<text x="{x + 8:.0f}" y="{y - 6:.0f}" fill="{COLOURS[node.fate]}">{html.escape(visible(label))}</text>'
    return lines + dot + text


def svg_line(x: float, y: float, to_x: float, to_y: float, fate: str) -> str:
    dashes = "4 3" if fate == "dropped" else "none"
    ends = f'x1="{x:.0f}" y1="{y:.0f}" x2="{to_x - 6:.0f}" y2="{to_y:.0f}"'
    return f'<line {ends} stroke="{COLOURS[fate]}" stroke-dasharray="{dashes}"/>'


def visible(text: str) -> str:
    """Line breaks and tabs as visible symbols."""
    return text.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")


@dataclass(frozen=True)
class SearchErrors:
    width: int
    error_rate: float  # how often the beam misses the most likely sequence
    mean_loss: float  # mean log-probability lost by that
    prompts: int


def search_errors(
    run: Run,
    count: int,
    max_new_tokens: int,
    widths: Sequence[int] = (),
    to: str | None = None,
    progress: Progress = silent,
) -> list[SearchErrors]:
    """How often a beam misses the most likely sequence of up to ``max_new_tokens`` tokens."""
    task, model = need(run.task, Generates), run.network
    generator, prompts = task.generator(model).into(to), task.prompts(count)
    return [
        errors_of(generator, prompts, max_new_tokens, width, progress) for width in widths or usual_widths(run, model)
    ]


def errors_of(
    generator: Generator, prompts: Sequence[str], max_new_tokens: int, width: int, progress: Progress
) -> SearchErrors:
    missed, lost = 0, 0.0
    beam = Beam(width, length_penalty=0.0, early=False)
    for number, prompt in enumerate(prompts, start=1):
        ((hypothesis,),) = generator.search([prompt], max_new_tokens, beam)
        better = generator.exact(prompt, max_new_tokens, hypothesis.log_probability + ROUNDING)
        if better is not None:
            missed += 1
            lost += better.log_probability - hypothesis.log_probability
        progress(f"width {width}", number / len(prompts))
    return SearchErrors(width, missed / len(prompts), lost / max(missed, 1), len(prompts))
