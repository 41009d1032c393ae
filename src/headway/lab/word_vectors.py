"""Word vectors: benchmarks that they are evaluated on, and maps of them.

A map is the projection of the unit vectors on their first two principal components.
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.config.errors import Problem
from headway.data.files import open_text
from headway.data.storage import write_whole
from headway.lab.plot import Plot
from headway.tasks.word2vec.evaluation import Judged, Section, Similarity, analogies, similarities
from headway.tasks.word2vec.word_vectors import WordVectors

SIDE = 1000  # of the drawing
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # safe for colour-blind readers
PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body{{font:14px sans-serif;margin:1em}}text{{font-size:12px}}text:hover{{font-weight:bold}}</style>
<p>{title}</p><svg viewBox="0 0 {side} {side}" width="100%" style="max-height:92vh">{points}</svg>
"""
Questions = dict[str, list[tuple[str, str, str, str]]]


@dataclass(frozen=True)
class Benchmarks:
    similarity: dict[Path, Similarity]
    analogies: list[Section]

    @property
    def all_analogies(self) -> Section:
        return Section(
            "all",
            sum(section.right for section in self.analogies),
            sum(section.asked for section in self.analogies),
            sum(section.questions for section in self.analogies),
        )


def evaluate(table: WordVectors, files: Sequence[Path]) -> Benchmarks:
    """On files of judged pairs, and of analogies."""
    pairs = {path: similarities(table, judged_pairs(path)) for path in files if not has_questions(path)}
    asked = [questions(path) for path in files if has_questions(path)]
    return Benchmarks(pairs, [analogies(table, name, group) for sections in asked for name, group in sections.items()])


def judged_pairs(path: Path) -> list[Judged]:
    """Two words and a number per line, separated by tabs, commas or spaces; lines before the first such line are
    headings."""
    pairs: list[Judged] = []
    with open_text(path, "utf-8") as file:
        for line, text in enumerate(file, start=1):
            parts = text.lower().replace(",", " ").split()
            if not parts or text.startswith("#"):
                continue
            try:
                pairs.append(Judged(parts[0], parts[1], float(parts[2])))
            except (IndexError, ValueError):
                if pairs:
                    raise Problem(f"{path}, line {line}: not two words and a number: {text.strip()[:60]!r}") from None
    if not pairs:
        raise Problem(f"{path}: no line has two words and a number")
    return pairs


def questions(path: Path) -> Questions:
    """Four words per line; a line that starts with a colon names a section."""
    sections: Questions = {}
    section = path.name
    with open_text(path, "utf-8") as file:
        for line, text in enumerate(file, start=1):
            parts = text.lower().split()
            if text.startswith(":"):
                section = text[1:].strip()
            elif len(parts) == 4:
                sections.setdefault(section, []).append((parts[0], parts[1], parts[2], parts[3]))
            elif parts:
                raise Problem(f"{path}, line {line}: not four words: {text.strip()[:60]!r}")
    if not sections:
        raise Problem(f"{path} has no analogies")
    return sections


def has_questions(path: Path) -> bool:
    with open_text(path, "utf-8") as file:
        return next((text.startswith(":") or len(text.split()) == 4 for text in file if text.strip()), False)


def map_words(table: WordVectors, words: Sequence[str]) -> np.ndarray:
    """(N, 2): the position of each word."""
    if len(words) < 3:
        raise Problem(f"a map of {len(words)} words says nothing: name three or more")
    return project(np.stack([table.direction(word) for word in words]))


def project(vectors: np.ndarray) -> np.ndarray:
    """(N, 2): positions from 0 to 1, by principal component analysis."""
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    projected = centred @ axes[:2].T
    spread = projected.max(axis=0) - projected.min(axis=0)
    return (projected - projected.min(axis=0)) / np.where(spread > 0, spread, 1.0)


def map_writer(path: Path) -> Callable[..., None]:
    """The function that writes a map into such a file."""
    forms = {".png": save_picture, ".html": save_page}
    if path.suffix.lower() not in forms:
        raise Problem(f"{path}: a map is a .png or a .html")
    return forms[path.suffix.lower()]


def save_page(
    path: Path, labels: Sequence[str], positions: np.ndarray, title: str, groups: np.ndarray | None = None
) -> None:
    """A page for a browser; with groups, points are coloured and have their labels as tooltips."""
    pixels = np.stack([20 + positions[:, 0] * (SIDE - 120), SIDE - 20 - positions[:, 1] * (SIDE - 40)], axis=1)
    points = []
    for index, (label, (x, y)) in enumerate(zip(labels, pixels, strict=True)):
        text = html.escape(label)
        if groups is None:
            points.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/><text x="{x + 4:.1f}" y="{y + 4:.1f}">{text}</text>'
            )
        else:
            colour = COLOURS[groups[index] % len(COLOURS)]
            points.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="{colour}"><title>{text}</title></circle>')
    page = PAGE.format(title=html.escape(title), side=SIDE, points="\n".join(points))
    write_whole(path, page)


def save_picture(
    path: Path, labels: Sequence[str], positions: np.ndarray, title: str, groups: np.ndarray | None = None
) -> None:
    """With groups, points are coloured and have no labels."""
    plot = Plot((11, 11))
    axes = plot.axes[0, 0]
    if groups is None:
        axes.scatter(*positions.T, s=6)
        for label, (x, y) in zip(labels, positions, strict=True):
            axes.annotate(label, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=8)
    else:
        axes.scatter(*positions.T, s=40, c=[COLOURS[group % len(COLOURS)] for group in groups])
    axes.set(title=title, xticks=[], yticks=[])
    plot.save(path)
