"""Settings: dataclasses that are read from TOML and ``key=value`` overrides, and validated.

A field's default, bounds, choices and meaning have one home, its dataclass; recipes, error messages and the command
line's lists of settings all read them there.
"""

import dataclasses
import json
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from headway.config.errors import BadSetting, Problem, did_you_mean

Settings = TypeVar("Settings")
LARGEST = (1 << 32) - 1  # any larger integer is a typing mistake


def setting(
    default: Any,
    about: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: Sequence[str] | None = None,
    was: str | None = None,
    parts_were: Mapping[str, str] | None = None,
) -> Any:
    """A dataclass field with its meaning and its bounds or choices. ``was`` is its old name; ``parts_were`` maps old
    names of parts and their options to new ones."""
    bounds = {"least": least, "above": above, "most": most, "below": below, "choices": choices}
    metadata = {"about": about, **bounds, "was": was, "parts_were": parts_were}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Row:
    """One setting in a list."""

    key: str
    value: Any
    about: str
    choices: Sequence[str] | None


def read(kind: type[Settings], tree: Mapping[str, Any], keys: Sequence[str] = (), path: str = "") -> Settings:
    """Make a ``kind`` from nested dicts; values may be text, as on the command line, or already of the right type.

    ``keys`` are all keys of the recipe, to suggest one where a key is unknown.
    """
    if not isinstance(tree, Mapping):
        raise BadSetting(path.rstrip("."), f"is a section, not a value: {tree!r}")
    types_of = get_type_hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {}
    for name, value in tree.items():
        key = path + name
        if name not in known:
            raise BadSetting(key, f"no such key; {nearest_key(key, [path + each for each in known], keys)}")
        if dataclasses.is_dataclass(types_of[name]):
            values[name] = read(types_of[name], value, keys, key + ".")
        else:
            value = with_new_parts(value, known[name].metadata.get("parts_were"))
            values[name] = convert(value, types_of[name], key)
            check_bounds(values[name], known[name].metadata, key)
    return kind(**values)


def old_names(kind: type, path: str = "") -> dict[str, str]:
    """Old dotted keys, and the new ones."""
    names: dict[str, str] = {}
    for field in dataclasses.fields(kind):
        inner = get_type_hints(kind)[field.name]
        if dataclasses.is_dataclass(inner):
            names |= old_names(inner, f"{path}{field.name}.")  # type: ignore[arg-type]
        elif field.metadata.get("was"):
            names[path + field.metadata["was"]] = path + field.name
    return names


def with_new_names(tree: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The same nested dicts, with old keys replaced by new ones."""
    renamed = {section: dict(value) if isinstance(value, Mapping) else value for section, value in tree.items()}
    for old, new in names.items():
        section, _, name = old.rpartition(".")
        values = renamed.get(section)
        if isinstance(values, dict) and name in values:
            value = values.pop(name)
            values.setdefault(new.rpartition(".")[2], value)
    return renamed


def with_new_parts(value: Any, parts_were: Mapping[str, str] | None) -> Any:
    """A part's text with old names replaced: ``estimated(trace=0.9)`` is ``gae(gae_lambda=0.9)``."""
    if not parts_were or not isinstance(value, str):
        return value
    return re.sub(r"\b[a-z_]+\b(?=\s*[=(]|\s*$)", lambda name: parts_were.get(name[0], name[0]), value)


ELSEWHERE = {  # what other libraries call a setting
    "model.width": (
        *("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "embedding_dim", "embedding_size", "model_dim"),
        *("hidden_dim", "emb_dim", "emb_size", "units"),
    ),
    "model.layers": ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth"),
    "model.heads": ("num_attention_heads", "num_heads", "n_head", "n_heads", "nhead", "attention_heads"),
    "model.kv_heads": ("num_key_value_heads",),
    "model.hidden": ("intermediate_size", "dim_feedforward", "ffn_dim", "d_ff", "n_inner"),
    "model.dropout": ("dropout_rate", "hidden_dropout_prob", "resid_pdrop", "dropout_prob", "p_dropout"),
    "model.attention_dropout": ("attention_probs_dropout_prob", "attn_pdrop"),
    "train.learning_rate": ("lr", "rate", "step_size", "max_lr", "learningrate"),
    "train.weight_decay": ("wd", "l2", "weight_decay_rate"),
    "train.epochs": ("num_train_epochs", "max_epochs", "n_epochs", "num_epochs", "epoch", "passes"),
    "train.steps": ("max_steps", "num_steps", "iterations", "max_iters"),
    "train.batch_size": ("per_device_train_batch_size", "train_batch_size", "bs"),
    "train.accumulate": ("gradient_accumulation_steps", "accumulate_grad_batches", "update_freq"),
    "train.warmup": ("warmup_steps", "warmup_updates", "num_warmup_steps"),
    "train.grad_clip": ("max_grad_norm", "gradient_clip_val", "clip_norm", "clip_grad_norm"),
    "train.log_every": ("logging_steps", "log_every_n_steps", "log_interval"),
    "train.evaluate_every": ("eval_steps", "eval_interval", "val_check_interval"),
    "train.checkpoint_every": ("save_steps", "save_interval"),
    "train.schedule": ("lr_scheduler_type", "scheduler", "lr_scheduler"),
    "train.seed": ("random_state", "random_seed"),
    "train.patience": ("early_stopping_patience", "early_stopping", "n_iter_no_change"),
    "train.device": ("gpu", "use_gpu", "cuda", "use_cuda", "accelerator"),
    "train.optimizer": ("optim", "optimiser"),
    "train.precision=bf16": ("bf16",),
    "train.precision=fp16": ("fp16",),
    "train.threads": ("num_threads", "n_jobs", "num_workers"),
    "data.vocab_size": ("vocabulary_size", "max_vocab_size", "max_features", "num_words", "n_vocab"),
    "data.validation": ("validation_split", "val_size", "valid_size", "validation_size"),
    "data.test": ("test_size", "test_split"),
    "data.max_length": ("max_seq_length", "max_len", "maxlen", "max_position_embeddings", "block_size", "seq_len"),
    "--out": ("output_dir", "out_dir", "save_dir"),
}


def from_elsewhere(name: str) -> str | None:
    """Our key for another library's name."""
    return next((ours for ours, theirs in ELSEWHERE.items() if name.lower() in theirs), None)


def nearest_key(key: str, siblings: Sequence[str], keys: Sequence[str]) -> str:
    """Suggest the key for another library's name, a key of the same name in another section, or the closest one."""
    section, _, name = key.rpartition(".")
    if (known := from_elsewhere(name)) is not None:
        return f"did you mean {known!r}?"
    elsewhere = [each for each in keys if each.rpartition(".")[2] == name]
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}?"
    near = did_you_mean(name, [each.rpartition(".")[2] for each in siblings])
    return near.replace("did you mean '", f"did you mean '{section}.") if section else near


def convert(value: Any, annotation: Any, key: str) -> Any:
    """``value`` as the type of its field; text is parsed."""
    options = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    if type(None) in options and value in (None, "none"):
        return None
    kind = next(option for option in options if option is not type(None))
    if value == "" and kind is str and type(None) in options:
        raise BadSetting(key, "is empty: give it a value, or leave it out")
    if kind is bool and value in (True, False, "true", "false"):
        return value in (True, "true")
    if kind is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        if re.search("[\ud800-\udfff]", str(value)):
            raise BadSetting(key, f"{value} is not valid UTF-8: rename the file, or write it in other characters")
        return str(value)
    if kind in (int, float) and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            number = kind(value)
            if math.isfinite(number) and (isinstance(value, str) or number == value):
                return number
        except (ValueError, OverflowError):
            pass
    raise BadSetting(key, f"{value!r} is not {TYPE_NAMES[kind]}")


TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def check_bounds(value: Any, metadata: Mapping[str, Any], key: str) -> None:
    if value is None:
        return
    names = ("least", "above", "most", "below", "choices")
    least, above, most, below, choices = (metadata.get(name) for name in names)
    if isinstance(value, int) and value > LARGEST:
        raise BadSetting(key, f"{value} is too large: at most {LARGEST:,}")
    if least is not None and value < least:
        raise BadSetting(key, f"{value} is too small: at least {least}")
    if above is not None and value <= above:
        raise BadSetting(key, f"{value} is too small: more than {above}")
    if most is not None and value > most:
        raise BadSetting(key, f"{value} is too large: at most {most}")
    if below is not None and value >= below:
        raise BadSetting(key, f"{value} is too large: below {below}")
    if choices is not None and value not in choices:
        raise BadSetting(key, f"no such choice {value!r}; {did_you_mean(value, choices)}")


def put(tree: dict[str, Any], override: str, names: Mapping[str, str] | None = None) -> str:
    """Apply one ``key=value`` override to nested dicts and return its key; ``names`` maps old keys to new ones."""
    key, equals, value = override.partition("=")
    key = (names or {}).get(key.strip(), key.strip())
    if not equals or not all(key.split(".")):
        like = f"data.train={override}" if Path(override).suffix and not equals else "train.steps=600"
        raise Problem(f"{override!r} is not of the form key=value, such as {like}")
    *sections, name = key.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise BadSetting(key, f"{section!r} is a value, not a section")
    tree[name] = unquoted(value.strip())
    return key


def unquoted(value: str) -> str:
    """``"a text in quotes"`` is taken literally, white space and all."""
    if len(value) < 2 or not value.startswith('"') or not value.endswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        return value


def override(key: str, value: Any) -> str:
    """A setting from Python as ``key=value``; ``put`` reads the same value back."""
    value = value.item() if getattr(value, "shape", None) == () else value  # a number of numpy or torch
    if value is None or isinstance(value, bool):
        return f"{key}={'none' if value is None else str(value).lower()}"
    if isinstance(value, int | float):
        return f"{key}={value!r}"
    if isinstance(value, str | Path):
        text = str(value)
        plain = text == text.strip() and not text.startswith('"')
        return f"{key}={text if plain else json.dumps(text, ensure_ascii=False)}"
    shown = " ".join(repr(value).split())
    raise BadSetting(key, f"{shown:.80} is not a number, a text, true, false or none")


def rows(settings: Any, path: str = "") -> Iterator[Row]:
    """Every setting, depth first."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            yield from rows(value, path + field.name + ".")
        else:
            yield Row(path + field.name, value, field.metadata["about"], field.metadata["choices"])


def to_toml(settings: Any) -> str:
    """Every setting as TOML, which ``read`` reads back."""
    top, sections = [], []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            sections.append(f"\n[{field.name}]\n" + to_toml(value))
        else:  # JSON and TOML write numbers, booleans and nearly all text alike; TOML has no None
            text = json.dumps("none" if value is None else value, ensure_ascii=False).replace("\x7f", "\\u007f")
            top.append(f"{field.name} = {text}\n")
    return "".join(top + sections)
