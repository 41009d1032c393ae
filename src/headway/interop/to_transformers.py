"""Export a run as a model of the transformers library, with its tokenizer and how it generates."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file

from headway.config.errors import Problem
from headway.config.imports import library
from headway.config.parts import parse
from headway.config.recipe import ModelSpec
from headway.interop.exportable import Exportable, Proof
from headway.interop.families import FAMILIES
from headway.interop.families.classifiers import config_of_classifier, misfits_of_head, tensors_of_classifier
from headway.interop.folding import Network, variants
from headway.interop.from_transformers import ROLES, verify
from headway.interop.programs import refuse_different, relative_difference
from headway.interop.weights import ImportedWeights, export_weights
from headway.models import Classifier, Decoder, EncoderDecoder
from headway.models.masked_lm import MaskedModel
from headway.recipes import TABLES
from headway.tasks.abilities import Fills, Predicts, can, need


class Shape(NamedTuple):
    families: tuple[str, ...]  # that a model of ours may become; the first that fits is taken
    body: Callable[[Any], Any]  # the part with the embedding and the positions


SHAPES: dict[type, Shape] = {
    Decoder: Shape(("gpt2", "llama"), lambda model: model),
    MaskedModel: Shape(("bert",), lambda model: model.encoder),
    EncoderDecoder: Shape(("marian", "t5"), lambda model: model.decoder),
    Classifier: Shape(("gpt2", "llama", "bert"), lambda model: model.encoder),
}
IRRELEVANT = {  # settings of training, or of parts that such a model does not have
    *("init", "pooling", "token_dropout", "dropout", "head_dropout", "attention_dropout", "causal", "shared"),
    *("encoder_mixer",),
}
INITIAL = ("start", "length")  # options of a part's initialization, and those that follow from its data
START = 0.02  # the deviation that unscaled vectors begin with, as in GPT-2; with the usual 1, training is ruined


class Chosen(NamedTuple):
    family: str
    config: dict[str, Any]
    network: Network


def write_transformers(source: Exportable, folder: Path) -> tuple[str, Proof]:
    library("transformers")
    shape = SHAPES.get(type(source.model))
    if shape is None:
        kind = type(source.model).__name__.lower()
        raise Problem(f"{source.run.folder}: transformers has no such {kind}: export it to onnx or torch")
    body, length = shape.body(source.model), positions_of(source, shape)
    vocabulary = int(body.embedding.vocabulary)
    networks = list(variants(source.run.recipe.model, source.model, length, shape.body))
    labels = len(need(source.task, Predicts).labels) if can(source.task, Predicts) else 0
    chosen = choose_family(networks, shape.families, vocabulary, length, misfits_of(source), labels)
    config, model = chosen.config | special_tokens(source), chosen.network.model
    if can(source.task, Predicts):
        config |= config_of_classifier(chosen.family, need(source.task, Predicts).labels)
        tensors = tensors_of_classifier(chosen.family, FAMILIES[chosen.family].rules(config), model)
    else:
        tensors = export_weights(config, model)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    save_tokenizer(source, folder, length)
    if source.generator is not None:
        generation = json.dumps(generation_of(source), indent=2)
        (folder / "generation_config.json").write_text(generation, encoding="utf-8")
    if can(source.task, Predicts):
        return f"{chosen.family} classifier", prove_classifier(source, folder)
    imported = ImportedWeights(chosen.network.spec, chosen.network.model, length, [])
    max_difference = verify(folder, config, imported)
    return chosen.family, Proof(max_difference, *prove_texts(source, folder))


@torch.inference_mode()
def prove_classifier(source: Exportable, folder: Path) -> Proof:
    """By the model on random tokens, and by their pipeline from text to labels."""
    transformers = library("transformers")
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    source.refuse_other_tokens(lambda text: tokenizer(text, truncation=True).input_ids)
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(folder, use_safetensors=True, trust_remote_code=False, local_files_only=True).eval()
    random, size = torch.Generator().manual_seed(0), source.model.encoder.embedding.vocabulary
    tokens = torch.randint(1, size, (3, min(source.length, 12)), generator=random)
    difference = relative_difference(model(tokens).logits, source.model(tokens))
    label = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")

    def probabilities(text: str) -> dict[str, float]:
        return {each["label"]: each["score"] for each in label(text, top_k=None, truncation=True)}

    return Proof(refuse_different("the classifier", difference), *source.compare_probabilities(probabilities))


def positions_of(source: Exportable, shape: Shape) -> int:
    """The length of the table of positions that it has, or will have."""
    return int(shape.body(source.model).stack.position.length or source.length)


def misfits_of(source: Exportable) -> list[str]:
    """What does not fit, beside the parts of the network."""
    misfits = []
    if (translator := source.translator) is not None:
        if translator.source is not translator.tokenizer:
            misfits.append("data.joint=true: one tokenizer for both languages")
        if len(translator.tags) > 1:
            misfits.append("one language to translate into")
    if source.framing.keep == "both" and source.framing.longest is not None:
        misfits.append("data.keep=head or tail: its tokenizers cut a long text at one end")
    return misfits


def choose_family(
    networks: list[Network], names: tuple[str, ...], vocabulary: int, length: int, misfits: list[str], labels: int = 0
) -> Chosen:
    """The first family that one of these equal networks fits; all that does not fit is named at once."""
    fewest: tuple[str, list[str]] | None = None
    for network in networks:
        for name in names:
            config = FAMILIES[name].config(network.spec, vocabulary, length)
            differences = [*misfits_with(name, config, network.spec), *misfits]
            if labels:
                outputs = int(network.model.head.out_features)
                differences = [each for each in differences if not each.startswith("model.head=")]
                differences += misfits_of_head(name, network.spec, outputs, labels)
            if not differences:
                return Chosen(name, config, network)
            if fewest is None or len(differences) < len(fewest[1]):
                fewest = name, differences
    assert fewest is not None
    nearest, differences = fewest
    raise Problem(
        f"no model of the transformers library has these parts; the closest is {nearest}, which needs "
        f"{', '.join(differences)}"
    )


def misfits_with(name: str, config: dict[str, Any], spec: ModelSpec) -> list[str]:
    try:
        theirs = FAMILIES[name].spec(config)
    except Problem:  # of the activation, the one part that a config names
        usual = replace(spec, feedforward="gelu")
        others = misfits_with(name, FAMILIES[name].config(usual, config["vocab_size"], 1), usual)
        return ["model.feedforward=gelu", *others]
    return [
        f"model.{key}={advised(key, getattr(theirs, key))}"
        for key in vars(spec)
        if key not in IRRELEVANT and not same_part(key, getattr(spec, key), getattr(theirs, key), spec)
    ]


def advised(key: str, value: Any) -> Any:
    """A part of theirs with a beginning that trains: vectors that are not scaled have to begin small."""
    table = TABLES.get(f"model.{key.removeprefix('encoder_')}")
    if table is None or not isinstance(value, str):
        return value
    name, options = parse(value, "")
    if key == "position" and name == "learned":
        return "sinusoidal"  # it becomes a table (interop/folding), and trains better than one that is learned
    if key not in ("embedding", "position") or "start" not in signature(table[name]).parameters:
        return value
    return f"'{name}({', '.join(f'{option}={given!r}' for option, given in ({'start': START} | options).items())})'"


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


def special_tokens(source: Exportable) -> dict[str, Any]:
    """For their config."""
    index, writer = source.framing.tokenizer.vocabulary.index, source.generator
    tokens = {f"{name}_token_id": index.get(f"<{ours}>") for ours, name in (("sos", "bos"), ("pad", "pad"))}
    tokens["eos_token_id"] = writer.eos if writer is not None else index.get("<eos>")
    if source.translator is not None:
        tokens |= {"decoder_start_token_id": source.translator.bos, "forced_eos_token_id": None}
    return tokens


def generation_of(source: Exportable) -> dict[str, Any]:
    """What their generate does unless it is told otherwise: the run's own beam search."""
    tokens = special_tokens(source)
    if (translator := source.translator) is None:
        return tokens
    beam = translator.beam
    search = {"num_beams": beam.width, "length_penalty": beam.length_penalty, "early_stopping": beam.early}
    return tokens | search | {"max_length": translator.longest}


def save_tokenizer(source: Exportable, folder: Path, length: int) -> None:
    """Their tokenizer reads a text as the run does."""
    framing, fills = source.framing, can(source.task, Fills)
    content = json.loads(framing.to_json())
    symbols, index = framing.tokenizer.vocabulary.symbols, framing.tokenizer.vocabulary.index
    named = {theirs: symbols[index[ours]] for ours, theirs in ROLES.items() if ours in index}
    others = [symbol for symbol in framing.special if symbol not in named.values()]
    if fills:  # a mask is written in a text, with the space before it; nothing else that is special is
        named, others = {"mask_token": named["mask_token"]}, []
        mask = {"id": index["[MASK]"], "content": named["mask_token"], "lstrip": True, "special": True}
        content["added_tokens"].append({"single_word": False, "rstrip": False, "normalized": False} | mask)
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": framing.longest or length,
        "truncation_side": {"tail": "left"}.get(framing.keep, "right") if source.generator is None else "left",
        "split_special_tokens": not fills,  # <unk> in a text is text
        "model_input_names": ["input_ids", "attention_mask"],
        **named,
    }
    if source.translator is not None:
        about["truncation_side"] = "right"
    elif source.generator is not None:
        about["padding_side"] = "left"
    if others:
        about["additional_special_tokens"] = others
    (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")


def prove_texts(source: Exportable, folder: Path) -> tuple[int, int]:
    """By AutoTokenizer and, for what writes, ``generate``."""
    transformers = library("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    cut = source.translator is not None or source.generator is None  # a prompt has to leave room

    def mark(text: str) -> str:
        """Their sign for a mask, which is not ours in a RoBERTa."""
        return text.replace("[MASK]", tokenizer.mask_token) if can(source.task, Fills) else text

    source.refuse_other_tokens(lambda text: tokenizer(mark(text), truncation=cut).input_ids)
    if can(source.task, Fills):
        mask = transformers.pipeline("fill-mask", model=str(folder), tokenizer=tokenizer, device="cpu")
        return source.compare_filled(
            lambda text: [[(each["token_str"], each["score"]) for each in mask(mark(text), top_k=5)]]
        )
    if source.generator is None:
        return 0, 0
    kind = transformers.AutoModelForSeq2SeqLM if source.translator else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(folder, use_safetensors=True, trust_remote_code=False, local_files_only=True).eval()
    how: dict[str, Any] = {"max_new_tokens": source.room, "do_sample": False}

    def write(texts: list[str]) -> list[str]:
        if tokenizer.pad_token is None and len(texts) > 1:  # an imported model may have none
            return [text for each in texts for text in write([each])]
        inputs = tokenizer(texts, return_tensors="pt", padding=len(texts) > 1, truncation=cut)
        rows = model.generate(**inputs, **how)
        rows = rows if source.translator else rows[:, inputs.input_ids.shape[1] :]
        return tokenizer.batch_decode(rows, skip_special_tokens=True)

    return source.compare_texts(write, cut=False)
