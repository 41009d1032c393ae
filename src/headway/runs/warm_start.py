"""To begin with the weights of another run: what it learned is kept, what a new task needs is new."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem
from headway.config.parts import is_path
from headway.config.recipe import Recipe
from headway.nn.embedding import Embedding
from headway.nn.lora import folded
from headway.runs.run import RECIPE, Run
from headway.tasks.abilities import HasWordVectors, KeepsReference, Predicts, Tokenizes, can, need
from headway.tasks.task import Task
from headway.tasks.word2vec.formats import read
from headway.tasks.word2vec.table import Table
from headway.text.tokenizer import SPACES, Tokenizer
from headway.text.vocabulary import SPECIALS
from headway.training.checkpoint import weights_of

ELSEWHERE = {  # what a decoder has by itself, other models have below these names, and may find below those
    "encoder.": ("encoder.", "", "decoder."),
    "decoder.": ("decoder.", ""),
    "reference.": ("decoder.", ""),  # a policy goes on from what it has become
    "": ("", "encoder.", "decoder."),
}


KEY = "model.embedding"
HEAD = "head."  # what tells classes apart


@dataclass(frozen=True)
class WarmStartReport:
    """Names of tensors, and of the first how many numbers they have."""

    source: Path
    step: int
    numbers: int
    taken: list[str]
    longer: list[str]  # of those, tables with more rows than there were: the rest is new
    new: list[str]  # begin as they would without a run
    left: list[str]  # there is no place for them

    def notes(self) -> list[str]:
        found = [f"begins with {self.source} at step {self.step:,}: {self.numbers:,} numbers, {in_words(self.taken)}"]
        found += [f"positions beyond those that it knew are new: {', '.join(self.longer)}"] if self.longer else []
        found += [f"new: {in_words(self.new)}"] if self.new else []
        return found + ([f"left behind: {in_words(self.left)}"] if self.left else [])


def in_words(names: list[str]) -> str:
    """``encoder.stack (25), encoder.embedding (1)``: by their first two words."""
    groups = Counter(".".join(name.split(".")[:2]) for name in names)
    return ", ".join(f"{group} ({count})" if count > 1 else group for group, count in groups.items())


def begin_with(model: nn.Module, task: Task, folder: str) -> WarmStartReport:
    """Put the weights of a run in the places of a task's model that have the same name and shape. What tells other
    labels apart is of no use."""
    run = Run(folder)
    skipped = () if labels_of(run.task) == labels_of(task) else (HEAD,)
    result = run.result()
    weights = folded(result.weights)
    taken: dict[str, str] = {}
    tables = {f"{name}.table.weight": part for name, part in model.named_modules()}
    with torch.no_grad():
        for name, tensor in weights_of(model).items():
            for theirs in () if name.startswith(skipped) else names_for(name):
                found = fitting(weights.get(theirs), tensor, tables.get(name))
                if found is not None:
                    tensor.copy_(found)
                    taken[name] = theirs
                    break
    if not taken:
        there, here = run.recipe.model.width, task.recipe.model.width
        why = f"it has model.width={there}, not {here}" if there != here else f"it is a run of {run.recipe.task}"
        raise Problem(f"start: nothing of {folder} fits into this model: {why}")
    if can(task, KeepsReference):
        need(task, KeepsReference).copy_reference(model)
    own = weights_of(model)
    return WarmStartReport(
        run.folder,
        result.step,
        sum(own[name].numel() for name in taken),
        list(taken),
        [name for name, theirs in taken.items() if own[name].ndim and len(own[name]) > len(weights[theirs])],
        [name for name in own if name not in taken],
        [name for name in weights if name not in taken.values()],
    )


def names_for(name: str) -> list[str]:
    """What a tensor of this name may be called in another model."""
    body = next(body for body in ELSEWHERE if name.startswith(body))
    return [theirs + name.removeprefix(body) for theirs in ELSEWHERE[body]]


def labels_of(task: Task) -> list[str] | None:
    return need(task, Predicts).labels if can(task, Predicts) else None


def fitting(theirs: Tensor | None, ours: Tensor, part: nn.Module | None) -> Tensor | None:
    """Their tensor as ours, if it has its shape; a table may have other rows, if its part knows which they are."""
    if theirs is None or theirs.shape[1:] != ours.shape[1:] or theirs.ndim != ours.ndim:
        return None
    if theirs.shape == ours.shape:
        return theirs
    resize = getattr(part, "resize", None)
    return None if resize is None else resize(theirs, ours)


# --- word vectors as the first embedding (``model.embedding=vectors.txt``)


def table_of(source: Path) -> Table:
    """The word vectors of a run, or of a file."""
    if not (source / RECIPE).is_file():
        return read(source)
    run = Run(source)
    return need(run.task, HasWordVectors).table(run.model())


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
    if not can(task, Tokenizes):
        raise BadSetting(KEY, "this task has no words: word vectors are of no use to it")
    notes = []
    for name, part in model.named_modules():
        if isinstance(part, Embedding):
            words = words_of(need(task, Tokenizes).tokenizer_of(name))
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


def words_of(tokenizer: Tokenizer) -> list[str]:
    """What each token says; nothing where it is no word. Where some are the first of a word, the others are pieces."""
    symbols, begins = tokenizer.vocabulary.symbols, tokenizer.begins_word
    spaced = any(begin and symbol not in SPACES for symbol, begin in zip(symbols, begins, strict=True))
    return [
        "" if symbol in SPECIALS or (spaced and not begin) else symbol.lstrip("".join(SPACES))
        for symbol, begin in zip(symbols, begins, strict=True)
    ]
