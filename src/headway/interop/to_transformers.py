"""Export a run as a model of the transformers library."""

import json
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save_file
from tokenizers import Tokenizer as Core
from tokenizers.processors import TemplateProcessing

from headway.config.errors import Problem
from headway.config.imports import library
from headway.config.parts import parse
from headway.config.recipe import ModelSpec
from headway.interop.families import FAMILIES
from headway.interop.from_transformers import ROLES, verify
from headway.interop.weights import ImportedWeights, export_weights, network_of
from headway.models import Decoder, EncoderDecoder
from headway.models.masked_lm import MaskedModel
from headway.recipes import TABLES
from headway.runs.run import Run
from headway.tasks import Task
from headway.tasks.abilities import Generates, Tokenizes, Translates, can, need
from headway.text.tokenizer import Tokenizer


class Shape(NamedTuple):
    families: tuple[str, ...]  # that a model of ours may become; the first that fits is taken
    body: Callable[[Any], Any]  # the part with the embedding and the positions


SHAPES: dict[type, Shape] = {
    Decoder: Shape(("gpt2", "llama"), lambda model: model),
    MaskedModel: Shape(("bert",), lambda model: model.encoder),
    EncoderDecoder: Shape(("marian", "t5"), lambda model: model.decoder),
}
IRRELEVANT = {  # settings of training, or of parts that such a model does not have
    *("init", "pooling", "token_dropout", "dropout", "head_dropout", "attention_dropout", "causal", "shared"),
    *("encoder_mixer",),
}
INITIAL = ("start", "length")  # options of a part's initialization, and those that follow from its data


def write_transformers(run: Run, folder: Path) -> tuple[str, float]:
    model, task = network_of(run), run.task
    shape = SHAPES.get(type(model))
    if shape is None:
        kind = type(model).__name__.lower()
        raise Problem(f"{run.folder}: transformers has no such {kind}: export it to onnx or torch")
    body = shape.body(model)
    vocabulary, length = int(body.embedding.vocabulary), int(body.stack.position.length or task.context_length)
    kind, config = choose_family(run.recipe.model, shape.families, vocabulary, length)
    config |= special_tokens(task)
    save_file(export_weights(config, model), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    save_tokenizer(folder, task, bos_of(run))
    return kind, verify(folder, config, ImportedWeights(run.recipe.model, model, length, []))


def choose_family(spec: ModelSpec, names: tuple[str, ...], vocabulary: int, length: int) -> tuple[str, dict[str, Any]]:
    differences = {}
    for name in names:
        config = FAMILIES[name].config(spec, vocabulary, length)
        try:
            theirs = FAMILIES[name].spec(config)
        except Problem as problem:
            differences[name] = [str(problem)]
            continue
        differences[name] = [
            f"model.{key}={getattr(theirs, key)}"
            for key in vars(spec)
            if key not in IRRELEVANT and not same_part(key, getattr(spec, key), getattr(theirs, key), spec)
        ]
        if not differences[name]:
            return name, config
    nearest = min(differences, key=lambda name: len(differences[name]))
    raise Problem(
        f"no model of the transformers library has these parts; the closest is {nearest}, which needs "
        f"{', '.join(differences[nearest])}"
    )


def same_part(key: str, ours: Any, theirs: Any, spec: ModelSpec) -> bool:
    """Whether two settings mean the same part."""
    defaults: dict[str, Any] = {"hidden": 4 * spec.width, "kv_heads": spec.heads, "encoder_layers": spec.layers}
    defaults["encoder_position"] = spec.position
    ours, theirs = (defaults.get(key) if value is None else value for value in (ours, theirs))
    table = TABLES.get(f"model.{key.removeprefix('encoder_')}")
    return ours == theirs if table is None else resolved(ours, table) == resolved(theirs, table)


def resolved(text: str, table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a part and all of its options, without those of its initialization."""
    name, given = parse(text, "")
    parameters = signature(table[name]).parameters.values()
    options = {each.name: each.default for each in parameters if each.default is not Parameter.empty} | given
    return name, {option: value for option, value in options.items() if option not in INITIAL}


def special_tokens(task: Task) -> dict[str, Any]:
    """For their config."""
    index = tokenizer_of(task).vocabulary.index
    bos = index.get("<sos>")
    tokens = {"eos_token_id": index["<eos>"], "bos_token_id": bos, "pad_token_id": index.get("<pad>")}
    if can(task, Translates):
        tokens |= {"decoder_start_token_id": bos, "forced_eos_token_id": None}
    return tokens


def tokenizer_of(task: Task) -> Tokenizer:
    source, target = (need(task, Tokenizes).tokenizer_of(side) for side in ("encoder.embedding", "decoder.embedding"))
    if source is not target:
        raise Problem(
            "each language has its own tokenizer (data.joint=false): the transformers library has no such model"
        )
    return target


def bos_of(run: Run) -> int | None:
    """The token that a language model's prompts start with."""
    if not can(run.task, Generates) or can(run.task, Translates):
        return None
    generator = need(run.task, Generates).generator(run.network)
    return generator.bos if generator.always_bos else None


def save_tokenizer(folder: Path, task: Task, bos: int | None) -> None:
    """Their tokenizer puts ``bos`` in front of a text, as ours does, so that both read a prompt alike."""
    library("transformers")
    tokenizer = tokenizer_of(task)
    core = Core.from_str(tokenizer.to_json())
    if bos is not None:
        symbol = core.id_to_token(bos)
        core.post_processor = TemplateProcessing(single=f"{symbol} $A", special_tokens=[(symbol, bos)])
    (folder / "tokenizer.json").write_text(core.to_str(pretty=True), encoding="utf-8")
    symbols, index = tokenizer.vocabulary.symbols, tokenizer.vocabulary.index
    named = {theirs: symbols[index[ours]] for ours, theirs in ROLES.items() if ours in index}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")
