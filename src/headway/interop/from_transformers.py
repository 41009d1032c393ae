"""Import: a model in the format of the transformers library becomes a run, checked against the original.

An imported run is a run like any other: it generates, fills in masks or translates, and others can start from it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from headway import recipes
from headway.config.errors import Problem
from headway.config.imports import library
from headway.config.json_files import read_json
from headway.data.files import Progress, silent
from headway.data.storage import write_whole
from headway.interop.programs import refuse_different
from headway.interop.weights import ImportedWeights, import_weights
from headway.runs.run import ABOUT, Run
from headway.tasks.file_task import DATA, TOKENIZER
from headway.tasks.language import ABOUT_TEXT
from headway.tasks.pretrain import EXTRA_TOKENS
from headway.tasks.translate import UNSEEN
from headway.text.tokenizer import Tokenizer, read_core
from headway.training import checkpoint
from headway.training.checkpoint import Checkpoint, weights_of

ROLES = {  # our special tokens, and their names in a config or tokenizer of theirs
    "<pad>": "pad_token",
    "<unk>": "unk_token",
    "<sos>": "bos_token",
    "<eos>": "eos_token",
    "[CLS]": "cls_token",
    "[SEP]": "sep_token",
    "[MASK]": "mask_token",
}


NAME_CODE = {"auto_map", "quantization_config", "distributed_config"}  # keys of a config.json that load other code


class Imported(NamedTuple):
    run: Run
    max_difference: float  # between its outputs and the original's, relative to the largest output
    unused: list[str]  # tensors without a counterpart here


def import_model(source: str, out: Path | None = None, progress: Progress = silent) -> Imported:
    """From a folder, or by name from the Hugging Face hub."""
    folder = Path(source) if Path(source).exists() else fetch(source, progress)
    config, tensors = read_json(folder / "config.json"), read_tensors(folder)
    if not isinstance(config, dict):
        raise Problem(f"{folder / 'config.json'} does not describe a model: it is not a JSON object")
    with named_errors(folder):
        refuse_other_heads(config, folder)
        imported = import_weights(config, with_full_names(config, tensors))
        max_difference = verify(folder, config, imported)
        tokenizer = read_tokenizer(folder, config)
    name = Path(source).resolve().name if Path(source).exists() else source.rpartition("/")[2]
    about = {"source": source, "max_difference": max_difference, "unused": imported.unused}
    run = write_run(name, config, imported, tokenizer, about, out)
    return Imported(run, max_difference, imported.unused)


@contextmanager
def named_errors(folder: Path) -> Iterator[None]:
    """A config of theirs may have any type and any size in any field, and the other library fails in its own ways."""
    try:
        yield
    except (Problem, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        what = f"config.json or the tokenizer does not fit: {type(error).__name__}: {reason}"
        raise Problem(f"{folder} cannot be imported: {what}") from error


def refuse_other_heads(config: dict[str, Any], folder: Path) -> None:
    """A classifier of the other library would become a language model that it never was."""
    for kind in map(str, config.get("architectures") or ()):
        if kind.endswith(("Classification", "QuestionAnswering", "MultipleChoice")):
            raise Problem(f"{folder} is a {kind}: only (masked) language models and translators can be imported")


def fetch(name: str, progress: Progress) -> Path:
    if name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise Problem(f"there is no folder {name} (current folder: {Path.cwd()})")
    hub = library("huggingface_hub")
    progress(f"downloading {name}", 0.0)
    try:
        weights, tokenizer = (
            ["*.safetensors", "*.safetensors.index.json"],
            ["tokenizer*.json", "special_tokens_map.json"],
        )
        return Path(hub.snapshot_download(name, allow_patterns=["config.json", *weights, *tokenizer]))
    except Exception as error:  # from several libraries
        reason = " ".join(str(error).split())[:160]
        raise Problem(f"{name} is not a folder, and cannot be downloaded from the hub: {reason}") from None


def read_tensors(folder: Path) -> dict[str, Tensor]:
    files = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    if not files:
        pickled = next(iter([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]), None)
        if pickled is not None:
            raise Problem(
                f"{pickled} is a pickle, which can run any code when it is loaded: get the model as safetensors, or "
                "convert it in a safe place with model.save_pretrained(FOLDER)"
            )
        raise Problem(f"{folder} has no *.safetensors")
    try:
        return {name: tensor for file in files for name, tensor in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise Problem(f"{folder}: its weights cannot be read: {error}") from None


def with_full_names(config: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Some files omit the prefix of the whole model in the names of tensors."""
    body = {"gpt2": "transformer", "bert": "bert", "roberta": "roberta", "llama": "model", "marian": "model"}
    prefix = body.get(config.get("model_type"), "") + "."
    if prefix == "." or any(name.startswith(prefix) for name in tensors):
        return tensors
    return {prefix + name: tensor for name, tensor in tensors.items()}


@torch.no_grad()
def verify(folder: Path, config: Any, imported: ImportedWeights) -> float:
    """The largest difference from the original's outputs on random tokens; an error if it exceeds the tolerance.

    Their library gets the tensors and a config, and never the folder: it would read other files there, pickles too.
    """
    transformers = library("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    kind, tensors = config["model_type"], read_tensors(folder)
    make = ORIGINALS[kind](transformers)
    described = make.config_class.from_dict({key: config[key] for key in config.keys() - NAME_CODE})
    original = make.from_pretrained(
        None,
        config=described,
        state_dict=tensors,
        dtype=torch.float32,
        attn_implementation="eager",  # a config may name a kernel on the hub
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
    ).eval()
    random = torch.Generator().manual_seed(0)
    length = min(imported.length, 32)
    tokens, written = (torch.randint(5, config["vocab_size"], (2, length), generator=random) for _ in range(2))
    if original.config.is_encoder_decoder:
        expected = original(input_ids=tokens, decoder_input_ids=written).logits
    else:
        expected = original(input_ids=tokens).logits
    max_difference = float(
        (outputs(imported.model, kind, tokens, written) - expected).abs().max() / expected.abs().max()
    )
    return refuse_different(str(folder), max_difference)


ORIGINALS: dict[str, Callable[[Any], Any]] = {
    "gpt2": lambda library: library.GPT2LMHeadModel,
    "bert": lambda library: library.BertForMaskedLM,
    "roberta": lambda library: library.RobertaForMaskedLM,
    "llama": lambda library: library.LlamaForCausalLM,
    "marian": lambda library: library.MarianMTModel,
    "t5": lambda library: library.T5ForConditionalGeneration,
}


def outputs(model: Any, kind: str, tokens: Tensor, written: Tensor) -> Tensor:
    if kind in ("marian", "t5"):
        return model(tokens, written)
    return model.head(model.encoder(tokens)) if kind in ("bert", "roberta") else model(tokens)


def read_tokenizer(folder: Path, config: Any) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise Problem(f"{folder} has no tokenizer.json: save it with a fast tokenizer of the transformers library")
    named: dict[str, Any] = {}
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).is_file():
            named |= read_json(folder / name)
    core = Tokenizer(read_core(path), {}).core
    roles = {ours: symbol_of(named.get(theirs)) for ours, theirs in ROLES.items()}
    for ours, key in {"<pad>": "pad", "<sos>": "bos", "<eos>": "eos"}.items():
        number = config.get(f"{key}_token_id")
        if roles[ours] is None and isinstance(number, int):
            roles[ours] = core.id_to_token(number)
    if config["model_type"] in ("marian", "t5"):  # the first token of their decoder
        roles["<sos>"] = core.id_to_token(config.get("decoder_start_token_id") or config.get("pad_token_id") or 0)
    for ours, instead in (("<eos>", "[SEP]"), ("<sos>", "[CLS]"), ("[CLS]", "<sos>"), ("[SEP]", "<eos>")):
        roles[ours] = roles[ours] or roles[instead]
    vocabulary = core.get_vocab()
    core.no_truncation()  # how long a text may be is a setting here
    core.no_padding()
    more = [named.get(key) for key in ("additional_special_tokens", "extra_special_tokens")]
    others = [symbol_of(each) for listed in more if isinstance(listed, list) for each in listed]
    # A tokenizer.json need not say which tokens are special: the config beside it does.
    core.add_special_tokens(sorted({each for each in (*roles.values(), *others) if each in vocabulary}))
    return Tokenizer(core, {ours: symbol for ours, symbol in roles.items() if symbol in vocabulary})


def symbol_of(value: Any) -> str | None:
    """The text of a special token, which may be inside an object."""
    return value.get("content") if isinstance(value, dict) else value


def write_run(
    name: str, config: Any, imported: ImportedWeights, tokenizer: Tokenizer, about: dict[str, Any], out: Path | None
) -> Run:
    """The folder gets its name when everything is in it: without its weights, it would look like a run to train."""
    kind, size = config["model_type"], len(tokenizer)
    if size > config["vocab_size"]:
        raise Problem(f"the tokenizer has {size:,} tokens, the model only {config['vocab_size']:,}")
    overrides, files = settings_of(kind, imported.length, tokenizer)
    recipe = replace(recipes.load(TASKS_OF[kind], overrides), model=imported.spec, name=name)

    def save(folder: Path) -> None:
        tokenizer.save(folder / TOKENIZER)
        for file, content in {DATA: {}, **files}.items():
            (folder / file).write_text(json.dumps(content))
        run = Run(folder)
        weights = cut_to(run.task.model(), weights_of(imported.model))
        checkpoint.write(run.checkpoints, Checkpoint(weights, {}, {"step": 0, "best_step": None, "seconds": 0.0}, {}))
        write_whole(folder / ABOUT, json.dumps(run.about | {"imported": about}, indent=2))

    return Run.create(recipe, out, save)


TASKS_OF = {"gpt2": "language", "llama": "language", "bert": "pretrain", "roberta": "pretrain"} | dict.fromkeys(
    ("marian", "t5"), "translate"
)


def settings_of(kind: str, length: int, tokenizer: Tokenizer) -> tuple[list[str], dict[str, Any]]:
    """Overrides of the data settings, and the files that the task saves with a run."""
    overrides = [f"data.vocab_size={len(tokenizer)}", "data.tokenizer=bpe", "data.normalize="]
    if TASKS_OF[kind] == "language":
        opening = "<sos>" if kind == "llama" else "<eos>"
        begins = tokenizer.core.encode("a").ids[0] == tokenizer.vocabulary.index.get(opening)
        about = {"documents": 2, "opening": opening, "always_bos": begins}
        return [*overrides, "data.name=none", f"data.window={length}"], {ABOUT_TEXT: about}
    if TASKS_OF[kind] == "pretrain":
        return [*overrides, "data.name=none", f"data.window={length - EXTRA_TOKENS}", "data.objective=masked"], {}
    return [*overrides, f"data.max_length={length}"], {UNSEEN: []}


def cut_to(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Drop rows of their tables beyond the number of tokens."""
    return {name: weights[name][: len(tensor)].contiguous() for name, tensor in weights_of(model).items()}
