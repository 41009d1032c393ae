"""Word vectors of a run or of a file, and what they are measured on."""

from pathlib import Path

import numpy as np

from headway.data.files import open_text
from headway.data.vector_files import read
from headway.data.vectors import Buckets, Table
from headway.errors import Problem
from headway.metrics.vectors import Judged
from headway.models.vectors import WordVectors
from headway.run import RECIPE, Run
from headway.tasks.vectors import Vectors


def table_of(source: Path) -> Table:
    """Of a run, or of a file."""
    if not (source / RECIPE).is_file():
        return read(source)
    run = Run(source)
    task = run.task
    if not isinstance(task, Vectors):
        raise Problem(f"{source} is not a run of word vectors: headway vectors train makes one")
    model = run.model().cpu()
    assert isinstance(model, WordVectors)
    counted = np.flatnonzero(task.counts > 0)
    order = counted[np.argsort(-task.counts[counted], kind="stable")]
    inputs = model.inputs.detach().numpy()
    shape = model.shape
    if task.ngrams is None:
        matrix, buckets = inputs[order], None
    else:
        starts = shape.unit_starts
        rows = [shape.units[starts[word] : starts[word + 1]] for word in order]
        matrix = np.stack([inputs[each].mean(axis=0) for each in rows])
        buckets = Buckets(task.ngrams, inputs[shape.words :], inputs[order])
    outputs = None if shape.softmax == "hierarchical" else model.outputs.detach().numpy()[order]  # those are of a tree
    return Table([task.words[word] for word in order], matrix, buckets, task.counts[order], outputs)


def judged_pairs(path: Path) -> list[Judged]:
    """Two words and a number on each line, with tabs, commas or spaces between them; a line without a number is a
    heading."""
    found = []
    with open_text(path, "utf-8") as file:
        for line, text in enumerate(file, start=1):
            parts = text.lower().replace(",", " ").split()
            if not parts or text.startswith("#"):
                continue
            try:
                found.append(Judged(parts[0], parts[1], float(parts[2])))
            except (IndexError, ValueError):
                if found:
                    raise Problem(f"{path}, line {line}: not two words and a number: {text.strip()[:60]!r}") from None
    if not found:
        raise Problem(f"{path}: no line has two words and a number")
    return found


def questions(path: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """Four words on each line; a line that begins with a colon names the section."""
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    section = path.name
    with open_text(path, "utf-8") as file:
        for line, text in enumerate(file, start=1):
            parts = text.lower().split()
            if text.startswith(":"):
                section = text[1:].strip()
            elif len(parts) == 4:
                found.setdefault(section, []).append((parts[0], parts[1], parts[2], parts[3]))
            elif parts:
                raise Problem(f"{path}, line {line}: not four words: {text.strip()[:60]!r}")
    if not found:
        raise Problem(f"{path} has no questions in it")
    return found


def is_of_questions(path: Path) -> bool:
    with open_text(path, "utf-8") as file:
        return next((text.startswith(":") or len(text.split()) == 4 for text in file if text.strip()), False)
