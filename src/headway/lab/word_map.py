"""A map of words: their vectors, seen from where they spread the most.

The two directions are the first principal components of the vectors, each of length 1, around their mean.
"""

import html
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from headway.config.errors import Problem
from headway.lab.plot import pyplot, save
from headway.tasks.word2vec.table import Table

SIDE = 1000  # of the drawing
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # that almost everybody can tell apart
PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body{{font:14px sans-serif;margin:1em}}text{{font-size:12px}}text:hover{{font-weight:bold}}</style>
<p>{title}</p><svg viewBox="0 0 {side} {side}" width="100%" style="max-height:92vh">{points}</svg>
"""


def places(table: Table, words: Sequence[str]) -> np.ndarray:
    if len(words) < 3:
        raise Problem(f"a map of {len(words)} words would say nothing: name three or more")
    return on_a_plane(np.stack([table.direction(word) for word in words]))


def on_a_plane(vectors: np.ndarray) -> np.ndarray:
    """(N, 2): where each of them stands, from 0 to 1 either way."""
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    found = centred @ directions[:2].T
    spread = found.max(axis=0) - found.min(axis=0)
    return (found - found.min(axis=0)) / np.where(spread > 0, spread, 1.0)


def maps(path: Path) -> Callable[..., None]:
    """What draws a map into such a file."""
    forms = {".png": save_picture, ".html": save_page}
    if path.suffix.lower() not in forms:
        raise Problem(f"{path}: a map is a .png or a .html")
    return forms[path.suffix.lower()]


def save_page(
    path: Path, labels: Sequence[str], where: np.ndarray, title: str, groups: np.ndarray | None = None
) -> None:
    """A page by itself, to be looked at in a browser; with groups there are colours, and labels show up under the
    mouse."""
    points = []
    for number, (label, (x, y)) in enumerate(zip(labels, drawn(where), strict=True)):
        text = html.escape(label)
        if groups is None:
            points.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/><text x="{x + 4:.1f}" y="{y + 4:.1f}">{text}</text>'
            )
        else:
            colour = COLOURS[groups[number] % len(COLOURS)]
            points.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="{colour}"><title>{text}</title></circle>')
    page = PAGE.format(title=html.escape(title), side=SIDE, points="\n".join(points))
    path.write_text(page, encoding="utf-8")


def drawn(where: np.ndarray) -> np.ndarray:
    """In the coordinates of the drawing, with room for the words at its right, and upwards up."""
    return np.stack([20 + where[:, 0] * (SIDE - 120), SIDE - 20 - where[:, 1] * (SIDE - 40)], axis=1)


def save_picture(
    path: Path, labels: Sequence[str], where: np.ndarray, title: str, groups: np.ndarray | None = None
) -> None:
    """With groups, there are colours in place of labels."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(11, 11), layout="constrained")
    if groups is None:
        axes.scatter(*where.T, s=6)
        for label, (x, y) in zip(labels, where, strict=True):
            axes.annotate(label, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=8)
    else:
        axes.scatter(*where.T, s=40, c=[COLOURS[group % len(COLOURS)] for group in groups])
    axes.set(title=title, xticks=[], yticks=[])
    save(figure, path)
