"""Word vectors of a run or of a file, and as the first embedding of another model (``model.embedding=vectors.txt``)."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from headway.tasks.word2vec.formats import read
from headway.tasks.word2vec.table import Buckets, Table
from headway.config.errors import BadSetting, Problem
from headway.tasks.word2vec.model import WordVectors
from headway.nn.embedding import Embedding
from headway.config.parts import is_path
from headway.config.recipe import Recipe
from headway.runs.run import RECIPE, Run
from headway.tasks.task import Task
from headway.tasks.word2vec.task import Vectors
from headway.text.tokenizer import SPACES, Tokenizer
from headway.text.vocabulary import SPECIALS

KEY = "model.embedding"


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


def for_embedding(recipe: Recipe) -> Table | None:
    """The vectors that a model is to begin with, if it is."""
    source = recipe.model.embedding
    if recipe.start is not None or not is_path(source):
        return None
    if not Path(source).exists():
        raise BadSetting(KEY, f"there is no file or run {source}")
    table = table_of(Path(source))
    if table.width != recipe.model.width:
        raise BadSetting(KEY, f"the vectors of {source} have width {table.width}: set model.width={table.width}")
    return table


def embed(model: nn.Module, task: Task, table: Table) -> list[str]:
    """Begin with the vectors of a table, as long in the mean as the rows that they replace; gives a line for each
    embedding of the model."""
    notes = []
    for name, part in model.named_modules():
        if isinstance(part, Embedding):
            words = words_of(tokenizer_of(task, name))
            known = [number for number, word in enumerate(words) if word and table.known(word)]
            if not known:
                raise BadSetting(KEY, f"it has none of the {len(words):,} words of the data")
            found = np.stack([table.vector(words[number]) for number in known])
            with torch.no_grad():
                rows = part.table.weight
                size = rows.square().mean().sqrt() / float(np.sqrt(np.square(found).mean()))
                rows[known] = torch.from_numpy(found) * size
            share = len(known) / len(words)
            notes.append(f"{name} begins with vectors of {len(known):,} of its {len(words):,} words ({share:.1%})")
    return notes


def tokenizer_of(task: Task, name: str) -> Tokenizer:
    """Whose tokens an embedding is of."""
    if (both := getattr(task, "tokenizers", None)) is not None:
        source, target = both
        return source if name.startswith("encoder.") else target
    if (own := getattr(task, "tokenizer", None)) is not None:
        return own
    raise BadSetting(KEY, "this task has no words: word vectors are of no use to it")


def words_of(tokenizer: Tokenizer) -> list[str]:
    """What each token says; nothing where it is no word. Where some are the first of a word, the others are pieces."""
    symbols, begins = tokenizer.vocabulary.symbols, tokenizer.begins_word
    spaced = any(begin and symbol not in SPACES for symbol, begin in zip(symbols, begins, strict=True))
    return [
        "" if symbol in SPECIALS or (spaced and not begin) else symbol.lstrip("".join(SPACES))
        for symbol, begin in zip(symbols, begins, strict=True)
    ]
