"""Word vectors, data, and models of the transformers library from somebody who wants to do harm."""

import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

from torture.hostile import COMMAND, PICKLES, Spoil, deep


def word2vec(words: int, width: int) -> bytes:
    return f"{words} {width}\n".encode() + b"word " + bytes(16)


FILES: dict[str, tuple[str, bytes]] = {  # as word vectors, and as data: a name, and the content
    **{name: ("vectors.bin", content) for name, content in PICKLES.items()},
    "10^12 words": ("vectors.bin", word2vec(10**12, 300)),
    "vectors of 10^12 numbers": ("vectors.bin", word2vec(1, 10**12)),
    "more digits than a number has": ("vectors.txt", b"9" * 5000 + b" 300\nword 1\n"),
    "a fastText file of 10^18 words": ("vectors.bin", struct.pack("<ii", 793712314, 12) + b"\x7f" * 400),
    "deep JSON": ("vectors.txt", deep()),
}


def described(model: Path, **keys: Any) -> None:
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def remote_code(model: Path) -> None:
    (model / "evil.py").write_text(f"import os; os.system({COMMAND!r})")
    kinds = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoModelForCausalLM": "evil.Model"}
    described(model, auto_map=kinds, custom_pipelines={"text": {"impl": "evil.Model"}}, trust_remote_code=True)
    (model / "tokenizer_config.json").write_text(
        json.dumps({"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}, "tokenizer_class": "evil.Tokenizer"})
    )


def pickled_weights(model: Path, name: str) -> None:
    described(model, transformers_weights=name)
    (model / name).write_bytes(PICKLES["torch.save"])


def distributed(model: Path) -> None:
    """The format of torch.distributed has a pickle in it, and is preferred where it is there."""
    (model / ".metadata").write_bytes(PICKLES["pickle 2"])
    (model / "__0_0.distcp").write_bytes(PICKLES["torch.save"])


ALLOWED: dict[str, Spoil] = {  # the model is imported, and what names code is not looked at
    "code of its own": remote_code,
    "a kernel from the hub": lambda model: described(model, attn_implementation="evil/kernel"),
    "pickled weights": lambda model: pickled_weights(model, "adapter_model.bin"),
    "pickled weights beside": lambda model: (model / "pytorch_model.bin").write_bytes(PICKLES["torch.save"]),
    "a distributed checkpoint": distributed,
    "adapters": lambda model: (model / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/model"}'),
    "an index that leads away": lambda model: (model / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "../../canary-file"}}'
    ),
    "a generation of its own": lambda model: (model / "generation_config.json").write_text(
        '{"custom_generate": "evil", "trust_remote_code": true}'
    ),
    "quantization": lambda model: described(model, quantization_config={"quant_method": "gptq", "bits": 4}),
}
MODEL_TYPES: list[Any] = [{}, [], None, 0, "../../gpt2", "__class__", "os:system", "x" * 5000, {"a": {}}]
REFUSED: dict[str, Spoil] = {
    **{f"model_type={kind!r:.20}": partial(described, model_type=kind) for kind in MODEL_TYPES},
    "a pickle as config": lambda model: (model / "config.json").write_bytes(PICKLES["pickle 0"]),
    "a pickle as tokenizer": lambda model: (model / "tokenizer.json").write_bytes(PICKLES["pickle 2"]),
    "a deep tokenizer": lambda model: (model / "tokenizer.json").write_bytes(deep()),
    "a tokenizer of Python": lambda model: (model / "tokenizer.json").write_text(
        '{"version": "1.0", "pre_tokenizer": {"type": "Custom", "module": "os"}, "model": {"type": "os.system"}}'
    ),
    "only a pickle": lambda model: (model / "model.safetensors").rename(model / "pytorch_model.bin"),
    "a pickle as safetensors": lambda model: (model / "model.safetensors").write_bytes(PICKLES["torch.save"]),
}
