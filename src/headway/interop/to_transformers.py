"""A run as a model of the transformers library."""

import json
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save_file

from headway.config.errors import Problem
from headway.config.parts import parse
from headway.config.recipe import ModelSpec
from headway.interop.families import FAMILIES
from headway.interop.from_transformers import ROLES, library, prove
from headway.interop.weights import Taken, give
from headway.models import Decoder, EncoderDecoder
from headway.models.masked_lm import MaskedModel
from headway.recipes import TABLES
from headway.runs.run import Run
from headway.tasks import Task
from headway.tasks.abilities import Tokenizes, Translates, can, need
from headway.text.tokenizer import Tokenizer


class Shape(NamedTuple):
    families: tuple[str, ...]  # what a network of ours may become, the first that fits
    body: Callable[[Any], Any]  # what has its embedding and its positions


SHAPES: dict[type, Shape] = {
    Decoder: Shape(("gpt2", "llama"), lambda model: model),
    MaskedModel: Shape(("bert",), lambda model: model.encoder),
    EncoderDecoder: Shape(("marian", "t5"), lambda model: model.decoder),
}
NO_MATTER = {  # settings that are about training, or about parts that a model of this kind does not have
    *("init", "pooling", "token_dropout", "dropout", "head_dropout", "attention_dropout", "causal", "shared"),
    *("encoder_mixer",),
}
AT_FIRST = ("start", "length")  # options of how a part begins, and of what follows from its data


def write_transformers(run: Run, folder: Path) -> tuple[str, float]:
    model, task = run.model().cpu(), run.task
    shape = SHAPES.get(type(model))
    if shape is None:
        raise Problem(f"{run.folder}: a {type(model).__name__.lower()} has no counterpart in the transformers library")
    body = shape.body(model)
    vocabulary, length = int(body.embedding.vocabulary), int(body.stack.position.length or task.context_length)
    kind, config = choose_family(run.recipe.model, shape.families, vocabulary, length)
    config |= numbers_of(task)
    save_file(give(config, model), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    save_tokenizer(folder, task)
    return kind, prove(folder, config, Taken(run.recipe.model, model, length, []))


def choose_family(spec: ModelSpec, names: tuple[str, ...], vocabulary: int, length: int) -> tuple[str, dict[str, Any]]:
    differences = {}
    for name in names:
        config = FAMILIES[name].config(spec, vocabulary, length)
        try:
            wanted = FAMILIES[name].spec(config)
        except Problem as problem:
            differences[name] = [str(problem)]
            continue
        differences[name] = [
            f"model.{key}={getattr(wanted, key)}"
            for key in vars(spec)
            if key not in NO_MATTER and not alike(key, getattr(spec, key), getattr(wanted, key), spec)
        ]
        if not differences[name]:
            return name, config
    nearest = min(differences, key=lambda name: len(differences[name]))
    raise Problem(
        f"no model of the transformers library is made of these parts; the nearest is {nearest}, which would take "
        f"{', '.join(differences[nearest])}"
    )


def alike(key: str, ours: Any, theirs: Any, spec: ModelSpec) -> bool:
    """Whether two settings mean the same part."""
    instead: dict[str, Any] = {"hidden": 4 * spec.width, "kv_heads": spec.heads, "encoder_layers": spec.layers}
    instead["encoder_position"] = spec.position
    ours, theirs = (instead.get(key) if each is None else each for each in (ours, theirs))
    table = TABLES.get(f"model.{key.removeprefix('encoder_')}")
    return ours == theirs if table is None else meant(ours, table) == meant(theirs, table)


def meant(text: str, table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A part by its name and all of its options, those that it begins with left out."""
    name, given = parse(text, "")
    wanted = signature(table[name]).parameters.values()
    options = {each.name: each.default for each in wanted if each.default is not Parameter.empty} | given
    return name, {option: value for option, value in options.items() if option not in AT_FIRST}


def numbers_of(task: Task) -> dict[str, Any]:
    """Of the special tokens, as their config has them."""
    index = tokenizer_of(task).vocabulary.index
    begin = index.get("<sos>")
    found = {"eos_token_id": index["<eos>"], "bos_token_id": begin, "pad_token_id": index.get("<pad>")}
    if can(task, Translates):
        found |= {"decoder_start_token_id": begin, "forced_eos_token_id": None}
    return found


def tokenizer_of(task: Task) -> Tokenizer:
    source, target = (need(task, Tokenizes).tokenizer_of(side) for side in ("encoder.embedding", "decoder.embedding"))
    if source is not target:
        raise Problem("each language has its own tokens (data.joint=false), which no model of theirs can have")
    return target


def save_tokenizer(folder: Path, task: Task) -> None:
    library("transformers")
    tokenizer = tokenizer_of(task)
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    symbols = tokenizer.vocabulary.symbols
    index = tokenizer.vocabulary.index
    named = {theirs: symbols[index[ours]] for ours, theirs in ROLES.items() if ours in index}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")
