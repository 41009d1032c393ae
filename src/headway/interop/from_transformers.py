"""Models in and out: a folder in the format of the transformers library becomes a run, proven beside the original.

A run that was imported is a run like any other: it writes, fills in or translates, and others can begin with it.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from headway import recipes
from headway.config.errors import Problem
from headway.data.files import Progress, read_json, silent
from headway.interop.weights import Taken, take
from headway.runs.run import Run
from headway.tasks.file_task import DATA, TOKENIZER
from headway.tasks.language import ABOUT_TEXT
from headway.tasks.pretrain import MARKS
from headway.tasks.translate import UNSEEN
from headway.text.tokenizer import Tokenizer
from headway.training import checkpoint
from headway.training.checkpoint import Checkpoint, weights_of

CLOSE = 1e-4  # how far outputs may be apart, relative to their size
ROLES = {  # our special symbols, by the names that a config or tokenizer of theirs has for them
    "<pad>": "pad_token",
    "<unk>": "unk_token",
    "<sos>": "bos_token",
    "<eos>": "eos_token",
    "[CLS]": "cls_token",
    "[SEP]": "sep_token",
    "[MASK]": "mask_token",
}


class Imported(NamedTuple):
    run: Run
    apart: float  # how far its outputs are from the original's, at most
    left: list[str]  # tensors that have no place here


def import_model(source: str, out: Path | None = None, progress: Progress = silent) -> Imported:
    """From a folder, or from the hub by its name."""
    folder = Path(source) if Path(source).exists() else fetch(source, progress)
    config, tensors = read_json(folder / "config.json"), read_tensors(folder)
    if not isinstance(config, dict):
        raise Problem(f"{folder / 'config.json'} does not describe a model: it has no names and values")
    taken = take(config, with_full_names(config, tensors))
    apart = prove(folder, config, taken)
    tokenizer = read_tokenizer(folder, config)
    name = Path(source).resolve().name if Path(source).exists() else source.rpartition("/")[2]
    return Imported(write_run(name, config, taken, tokenizer, out), apart, taken.left)


def fetch(name: str, progress: Progress) -> Path:
    if name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise Problem(f"there is no folder {name} (seen from {Path.cwd()})")
    hub = library("huggingface_hub")
    progress(f"fetching {name}", 0.0)
    try:
        wanted = [
            "config.json",
            "*.safetensors",
            "*.safetensors.index.json",
            "tokenizer*.json",
            "special_tokens_map.json",
        ]
        return Path(hub.snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # of several libraries
        reason = " ".join(str(error).split())[:160]
        raise Problem(f"{name} is neither a folder here nor can it be fetched from the hub: {reason}") from None


def library(name: str, extra: str = "exchange") -> Any:
    """Of those that only some need."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise Problem(f"{name} is not installed, and is needed for this: pip install 'headway[{extra}]'") from None


def read_tensors(folder: Path) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = next(iter([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]), None)
        if pickled is not None:
            raise Problem(
                f"{pickled} is a pickle, which can run anything when it is read, and so is not read: have it saved as "
                "safetensors, or convert it where that can do no harm, with model.save_pretrained(FOLDER)"
            )
        raise Problem(f"{folder} has no *.safetensors in it")
    try:
        return {name: tensor for file in files for name, tensor in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise Problem(f"{folder}: its weights cannot be read: {error}") from None


def with_full_names(config: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Some files leave out the name of the whole model before those of its parts."""
    body = {"gpt2": "transformer", "bert": "bert", "roberta": "roberta", "llama": "model", "marian": "model"}
    prefix = body.get(config.get("model_type"), "") + "."
    if prefix == "." or any(name.startswith(prefix) for name in tensors):
        return tensors
    return {prefix + name: tensor for name, tensor in tensors.items()}


@torch.no_grad()
def prove(folder: Path, config: Any, taken: Taken) -> float:
    """How far the outputs are from the original's on random tokens; too far is a problem."""
    transformers = library("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    kind = config["model_type"]
    original = ORIGINALS[kind](transformers).from_pretrained(folder, use_safetensors=True, dtype=torch.float32).eval()
    random = torch.Generator().manual_seed(0)
    length = min(taken.length, 32)
    tokens, written = (torch.randint(5, config["vocab_size"], (2, length), generator=random) for _ in range(2))
    if original.config.is_encoder_decoder:
        expected = original(input_ids=tokens, decoder_input_ids=written).logits
    else:
        expected = original(input_ids=tokens).logits
    apart = float((outputs(taken.model, kind, tokens, written) - expected).abs().max() / expected.abs().max())
    return refuse_apart(str(folder), apart)


def refuse_apart(what: str, apart: float) -> float:
    if not apart <= CLOSE:
        raise Problem(f"{what} is not the same model: its outputs are {apart:.1e} apart, more than {CLOSE:.0e}")
    return apart


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
    for beside in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / beside).is_file():
            named |= read_json(folder / beside)
    core = Tokenizer(core_of(path), {}).core
    roles = {ours: symbol_of(named.get(theirs)) for ours, theirs in ROLES.items()}
    for ours, key in {"<pad>": "pad", "<sos>": "bos", "<eos>": "eos"}.items():
        number = config.get(f"{key}_token_id")
        if roles[ours] is None and isinstance(number, int):
            roles[ours] = core.id_to_token(number)
    if config["model_type"] in ("marian", "t5"):  # with which they begin to write
        roles["<sos>"] = core.id_to_token(config.get("decoder_start_token_id") or config.get("pad_token_id") or 0)
    for ours, instead in (("<eos>", "[SEP]"), ("<sos>", "[CLS]"), ("[CLS]", "<sos>"), ("[SEP]", "<eos>")):
        roles[ours] = roles[ours] or roles[instead]
    there = core.get_vocab()
    return Tokenizer(core, {ours: symbol for ours, symbol in roles.items() if symbol in there})


def core_of(path: Path) -> Any:
    from tokenizers import Tokenizer as Core

    try:
        return Core.from_file(str(path))
    except Exception as error:  # the library raises nothing more particular
        raise Problem(f"{path} is not a tokenizer: {error}") from None


def symbol_of(value: Any) -> str | None:
    """A name, or an object that has it as its content."""
    return value.get("content") if isinstance(value, dict) else value


def write_run(name: str, config: Any, taken: Taken, tokenizer: Tokenizer, out: Path | None) -> Run:
    kind, size = config["model_type"], len(tokenizer)
    if size > config["vocab_size"]:
        raise Problem(f"the tokenizer has {size:,} tokens, the model only {config['vocab_size']:,}")
    words, files = settings_of(kind, taken.length, size)
    recipe = replace(recipes.load(TASKS_OF[kind], words), model=taken.spec, name=name)

    def save(folder: Path) -> None:
        tokenizer.save(folder / TOKENIZER)
        for file, content in {DATA: {}, **files}.items():
            (folder / file).write_text(json.dumps(content))

    run = Run.create(recipe, out, save)
    weights = cut_to(run.task.model(), weights_of(taken.model))
    checkpoint.write(run.checkpoints, Checkpoint(weights, {}, {"step": 0, "best_step": None, "seconds": 0.0}, {}))
    return run


TASKS_OF = {"gpt2": "language", "llama": "language", "bert": "pretrain", "roberta": "pretrain"} | dict.fromkeys(
    ("marian", "t5"), "translate"
)


def settings_of(kind: str, length: int, size: int) -> tuple[list[str], dict[str, Any]]:
    """The settings of the data, and what the task keeps beside them."""
    words = [f"data.vocab_size={size}", "data.tokenizer=bpe", "data.normalize="]
    if TASKS_OF[kind] == "language":
        opening = "<sos>" if kind == "llama" else "<eos>"
        return [*words, "data.name=none", f"data.window={length}"], {ABOUT_TEXT: {"documents": 2, "opening": opening}}
    if TASKS_OF[kind] == "pretrain":
        return [*words, "data.name=none", f"data.window={length - MARKS}", "data.objective=masked"], {}
    return [*words, f"data.max_length={length}"], {UNSEEN: []}


def cut_to(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tables of theirs may have more rows than there are tokens."""
    return {name: weights[name][: len(tensor)].contiguous() for name, tensor in weights_of(model).items()}
