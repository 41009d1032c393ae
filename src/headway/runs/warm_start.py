"""Warm starts: initialize a model with the weights of another run, or its embeddings with word vectors."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem
from headway.config.parts import is_path
from headway.data.batch import Batch
from headway.models.heads import Head, withheld
from headway.nn.embedding import Embedding
from headway.nn.lora import merge_lora_weights
from headway.runs.run import RECIPE, Run
from headway.tasks.abilities import HasWordVectors, KeepsReference, Predicts, Tokenizes, can, need
from headway.tasks.file_task import TakesWords
from headway.tasks.multilingual import ExtendsVocabulary
from headway.tasks.tagging.predictions import Tags
from headway.tasks.task import Task
from headway.tasks.word2vec.formats import read
from headway.tasks.word2vec.word_vectors import WordVectors
from headway.text.tokenizer import SPACES, Tokenizer
from headway.text.vocabulary import SPECIALS
from headway.training.checkpoint import weights_of
from headway.training.optimizers import freeze

OTHER_PREFIXES = {  # prefixes of a body's weights here, and those that they may have in the other model
    "encoder.": ("encoder.", "", "decoder."),
    "decoder.": ("decoder.", ""),
    "reference.": ("decoder.", ""),  # a policy that starts from a policy starts from its trained weights
    "": ("", "encoder.", "decoder."),
}
KEY = "model.embedding"
HEAD = "head."  # prefix of the head of a classifier or a tagger
Spelled = Sequence[Sequence[int]]  # for each new token, those that spelled it
HALVINGS = 10  # of an interval of about 20: the bias of new tokens is found to two digits


@dataclass(frozen=True)
class WarmStartReport:
    """What was loaded from a run: names of tensors."""

    source: Path
    step: int
    parameters: int  # number of those loaded
    loaded: list[str]
    extended: list[str]  # loaded tables with more rows here than there; the other rows are new
    new: list[str]  # initialized as without a warm start
    unused: list[str]  # tensors of the run that this model does not have

    def notes(self) -> list[str]:
        notes = [
            f"starts from {self.source} at step {self.step:,}: {self.parameters:,} parameters, {grouped(self.loaded)}"
        ]
        notes += [f"extended with new rows: {', '.join(self.extended)}"] if self.extended else []
        notes += [f"new: {grouped(self.new)}"] if self.new else []
        return notes + ([f"not used: {grouped(self.unused)}"] if self.unused else [])


def grouped(names: list[str]) -> str:
    """``encoder.stack (25), encoder.embedding``: grouped by the first two parts of their names."""
    groups = Counter(".".join(name.split(".")[:2]) for name in names)
    return ", ".join(f"{group} ({count})" if count > 1 else group for group, count in groups.items())


def warm_start(model: nn.Module, task: Task, folder: str) -> WarmStartReport:
    """Copy the weights of a run to those of the model that have the same name and shape. Heads trained for other labels
    are skipped. A token that was added to the vocabulary begins as the mean of those that spelled it."""
    run = Run(folder)
    skipped = () if labels_of(run.task) == labels_of(task) else (HEAD,)
    result = run.final_checkpoint()
    weights = merge_lora_weights(result.weights)
    loaded: dict[str, str] = {}  # names here, and in the run
    spelled = need(task, ExtendsVocabulary).spellings() if can(task, ExtendsVocabulary) else []
    parts = owners(model)
    with torch.no_grad():
        for name, tensor in weights_of(model).items():
            for theirs in () if name.startswith(skipped) else names_for(name):
                value = fitting(weights.get(theirs), tensor, parts[name], spelled)
                if value is not None:
                    tensor.copy_(value)
                    loaded[name] = theirs
                    break
    if not loaded:
        width, own_width = run.recipe.model.width, task.recipe.model.width
        different = f"it has model.width={width}, not {own_width}"
        why = different if width != own_width else f"it is a run of {run.recipe.task}"
        raise Problem(f"start: no weight of {folder} fits this model: {why}")
    for head in heads_of(model) if spelled else ():
        head.shift(len(spelled), withheld(len(spelled)))
    if can(task, KeepsReference):
        need(task, KeepsReference).copy_reference(model)
    own = weights_of(model)
    return WarmStartReport(
        run.folder,
        result.step,
        parameters=sum(own[name].numel() for name in loaded),
        loaded=list(loaded),
        extended=[name for name, theirs in loaded.items() if own[name].ndim and len(own[name]) > len(weights[theirs])],
        new=[name for name in own if name not in loaded],
        unused=[name for name in weights if name not in loaded.values()],
    )


def names_for(name: str) -> list[str]:
    """The names that a tensor may have in another model."""
    prefix = next(prefix for prefix in OTHER_PREFIXES if name.startswith(prefix))
    return [other + name.removeprefix(prefix) for other in OTHER_PREFIXES[prefix]]


def labels_of(task: Task) -> list[str] | None:
    if can(task, Tags):
        return need(task, Tags).labels
    return need(task, Predicts).labels if can(task, Predicts) else None


def owners(model: nn.Module) -> dict[str, nn.Module]:
    """The part that each tensor belongs to; a table belongs to the part that looks up its rows."""
    parts = dict(model.named_modules())
    return {name: parts[re.sub(r"(\.table)?\.?[^.]+$", "", name)] for name in weights_of(model)}


def fitting(theirs: Tensor | None, ours: Tensor, part: nn.Module, spelled: Spelled = ()) -> Tensor | None:
    """Their tensor if it has our shape; one with another number of rows if its part can extend or resize it."""
    if theirs is None or theirs.shape[1:] != ours.shape[1:] or theirs.ndim != ours.ndim:
        return None
    if theirs.shape == ours.shape:
        return theirs
    extend, resize = (getattr(part, name, None) for name in ("extend", "resize"))
    extended = extend(theirs, spelled) if extend is not None and spelled else theirs
    if extended.shape == ours.shape:
        return extended
    return None if resize is None else resize(theirs, ours)


def heads_of(model: nn.Module) -> list[Head]:
    return [part for part in model.modules() if isinstance(part, Head)]


def release(model: nn.Module, task: Task, first_batch: Callable[[], Batch]) -> None:
    """The first thing that training does with new tokens: their bias rises, by the same for all, to where the loss of
    the first batch is lowest, but not above 0. Gradients would take long to get there, and each rare token would have
    to go all the way alone. The loss is convex in this number, so its slope says on which side the lowest point is."""
    new = len(need(task, ExtendsVocabulary).spellings()) if can(task, ExtendsVocabulary) else 0
    heads = [head for head in heads_of(model) if head.bias is not None and head.bias.requires_grad]
    biases = [head.bias for head in heads]
    if not new or not heads:
        return
    model.eval()
    batch, risen, low, high = first_batch(), 0.0, 0.0, -withheld(new)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        for head in heads:
            head.shift(new, middle - risen)
        risen = middle
        slopes = torch.autograd.grad(task.loss(model, batch).total, biases)
        if sum(float(slope[-new:].sum()) for slope in slopes) < 0:
            low = middle
        else:
            high = middle


# --- word vectors as initial embeddings (``model.embedding=vectors.txt``)


def word_vectors_of(source: Path) -> WordVectors:
    """The word vectors of a run, or of a file."""
    if not (source / RECIPE).is_file():
        return read(source)
    run = Run(source)
    return need(run.task, HasWordVectors).word_vectors(run.model())


def vectors_for(task: Task) -> WordVectors | None:
    """The word vectors to initialize the embeddings with, if the recipe names any."""
    recipe = task.recipe
    source = recipe.model.embedding
    if recipe.start is not None or not is_path(source):
        return None
    if not Path(source).exists():
        raise BadSetting(KEY, f"there is no file or run {source}")
    table = word_vectors_of(Path(source))
    if table.width != recipe.model.width:
        raise BadSetting(KEY, f"the vectors of {source} have width {table.width}: set model.width={table.width}")
    if recipe.train.freeze and can(task, TakesWords) and are_frozen(task):
        need(task, TakesWords).more_words = table.words
    return table


def are_frozen(task: Task) -> bool:
    """Whether the embeddings are: what stays as it is serves words that the training texts do not have, too."""
    with torch.device("meta"):
        model = task.model()
    freeze(model, task.recipe.train.freeze)
    tables = [part.table.weight for part in model.modules() if isinstance(part, Embedding)]
    return bool(tables) and not any(weight.requires_grad for weight in tables)


def initialize_embeddings(model: nn.Module, task: Task, table: WordVectors) -> list[str]:
    """Copy word vectors into the model's embeddings, scaled to the mean square of the rows that they replace; returns a
    note for each embedding."""
    if not can(task, Tokenizes):
        raise BadSetting(KEY, "this task has no words: word vectors are useless to it")
    notes = []
    for name, part in model.named_modules():
        if isinstance(part, Embedding):
            words = words_of(need(task, Tokenizes).tokenizer_of(name))
            known = [number for number, word in enumerate(words) if word and table.known(word)]
            if not known:
                raise BadSetting(KEY, f"it has none of the {len(words):,} words of the data")
            vectors = np.stack([table.vector(words[number]) for number in known])
            with torch.no_grad():
                rows = part.table.weight
                scale = rows.square().mean().sqrt() / float(np.sqrt(np.square(vectors).mean()))
                rows[known] = torch.from_numpy(vectors) * scale
            share = len(known) / len(words)
            notes.append(f"{name} starts with vectors for {len(known):,} of its {len(words):,} words ({share:.1%})")
    return notes


def words_of(tokenizer: Tokenizer) -> list[str]:
    """The word that each token is, or "" if it is none: special, or a later piece of a word."""
    symbols, begins = tokenizer.vocabulary.symbols, tokenizer.begins_word
    spaced = any(begin and symbol not in SPACES for symbol, begin in zip(symbols, begins, strict=True))
    return [
        "" if symbol in SPECIALS or (spaced and not begin) else symbol.lstrip("".join(SPACES))
        for symbol, begin in zip(symbols, begins, strict=True)
    ]
