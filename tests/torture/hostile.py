"""Run folders and checkpoints from somebody who wants to do harm: each case spoils a copy of a sound run. The hashes in
the manifest are made again, as whoever sends a run can do that as well."""

import io
import json
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet
from safetensors.numpy import save

from headway.data.storage import sha256_of

CANARY = "canary"
COMMAND = f"touch {CANARY}"

# --- what is executed


EXECUTED: list[str] = []
WATCHED = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pty.spawn", "pickle.find_class")
watching = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watching and event in WATCHED:
        EXECUTED.append(f"{event}: {arguments[:2]}")


sys.addaudithook(watch)  # it stays until the process ends


@contextmanager
def nothing_executed() -> Iterator[None]:
    global watching
    EXECUTED.clear()
    watching = True
    try:
        yield
    finally:
        watching = False
    assert EXECUTED == []
    assert not Path(CANARY).exists()


class Bomb:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (COMMAND,)


class Evaluated:
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"__import__('pathlib').Path({CANARY!r}).touch()",)


def npy_of_objects() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
    return stream.getvalue()


def torch_file() -> bytes:
    stream = io.BytesIO()
    torch.save({"weight": Bomb()}, stream)
    return stream.getvalue()


def zip_of(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("archive/data.pkl", content)
    return stream.getvalue()


PICKLES: dict[str, bytes] = {
    "pickle 0": pickle.dumps(Bomb(), 0),
    "pickle 2": pickle.dumps(Bomb(), 2),
    "pickle 5": pickle.dumps(Bomb(), 5),
    "pickle of eval": pickle.dumps(Evaluated()),
    "torch.save": torch_file(),
    "torch.save of old": pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(Bomb(), 2),
    "npy of objects": npy_of_objects(),
    "polyglot zip": save({"weight": np.zeros(3, np.float32)}) + zip_of(pickle.dumps(Bomb())),
}


# --- safetensors by hand


def tensors(header: Any, data: bytes = bytes(16), size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def tensor(shape: list[Any], start: int = 0, end: int = 16, kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


SAFETENSORS: dict[str, bytes] = {
    "10^12 numbers": tensors({"a": tensor([10**12])}),
    "10^12 numbers that are there": tensors({"a": tensor([10**6, 10**6], 0, 4 * 10**12)}),
    "a product that overflows": tensors({"a": tensor([2**32, 2**32], 0, 0)}),
    "a negative shape": tensors({"a": tensor([-4])}),
    "a shape of texts": tensors({"a": tensor(["__class__"])}),
    "overlapping tensors": tensors({"a": tensor([4]), "b": tensor([2], 8, 16)}),
    "a hole": tensors({"a": tensor([1], 0, 4), "b": tensor([1], 12, 16)}),
    "an end before the start": tensors({"a": tensor([4], 16, 0)}),
    "a header of 2^63 bytes": tensors({}, size=2**63),
    "a header of 100 MB": tensors(b"{}" + b" " * 100_000_001),
    "a deep header": tensors(b'{"a":' * 5000 + b"{}" + b"}" * 5000),
    "one name twice": tensors(b'{"a":%b,"a":%b}' % ((json.dumps(tensor([4])).encode(),) * 2)),
    "an unknown type": tensors({"a": tensor([4], kind="OBJECT")}),
    "a header that is no text": tensors(b'{"\xff\xfe": {}}'),
}


# --- settings that name something

PAYLOADS = ["os:system", "pty:spawn", "subprocess:run", "__class__", f"__import__('os').system('{COMMAND}')"]
ESCAPES = {  # from the tables of parts, by other values in the recipe of a run
    "mixer=__class__": ('mixer = "attention"', 'mixer = "__class__"'),
    "mixer=eval": ('mixer = "attention"', f"mixer = \"eval(source='{COMMAND}')\""),
    "feedforward=__init__": ('feedforward = "sine(scale=16)"', 'feedforward = "__init__(globals=1)"'),
    "optimizer=torch.load": ('optimizer = "adamw"', "optimizer = \"torch.load(f='x')\""),
    "optimizer=lambda": ('optimizer = "adamw"', 'optimizer = "(lambda: 0)()"'),
    "task=os": ('task = "parity"', 'task = "os"'),
    "task=__builtins__": ('task = "parity"', 'task = "__builtins__"'),
    "task=../../parity": ('task = "parity"', 'task = "../../parity"'),
    "device=os": ('device = "auto"', 'device = "os:system"'),
    "an unknown key": ('task = "parity"', 'task = "parity"\n__reduce__ = "os:system"'),
    "a deep recipe": ('task = "parity"', 'task = "parity"\ndeep = ' + "[" * 20_000 + "]" * 20_000),
    "a deep part": ('mixer = "attention"', f'mixer = "attention(a={"(" * 250}{")" * 250})"'),
}


# --- spoiling a run

Spoil = Callable[[Path], object]


def newest(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def sealed(run: Path, name: str, content: bytes | None = None) -> None:
    """Another file in the newest checkpoint, with its hash in the manifest."""
    folder = newest(run)
    if content is not None:
        (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {name: sha256_of(folder / name)}))


def listed(run: Path, **names: str) -> None:
    """Other names in the manifest."""
    path = newest(run) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | names))


def state(run: Path, **progress: Any) -> None:
    path = newest(run) / "state.json"
    content = json.loads(path.read_text())
    sealed(run, path.name, json.dumps(content | {"progress": content["progress"] | progress}).encode())


def recipe(run: Path, before: str, after: str) -> None:
    text = (run / "recipe.toml").read_text()
    assert before in text, (before, text)
    (run / "recipe.toml").write_text(text.replace(before, after))


def unfinished(run: Path) -> None:
    """One step to go, so that it is trained."""
    (run / "results.json").unlink(missing_ok=True)
    state(run, step=1, ended=None)
    newest(run).rename(run / "checkpoints" / "step-00000001")


def linked(run: Path, name: str, target: str) -> None:
    unfinished(run)
    path = run / name
    if path.is_dir():
        path.rename(run / "was")
    path.unlink(missing_ok=True)
    path.symlink_to(Path.cwd() / target)


def deep(levels: int = 100_000) -> bytes:
    return b"[" * levels + b"]" * levels


def pickling_parquet(path: Path) -> None:
    """A column of the kind that old versions of pyarrow unpickled."""
    meta = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": PICKLES["pickle 2"]}
    field, label = pa.field("text", pa.string(), metadata=meta), pa.field("label", pa.string())
    parquet.write_table(
        pa.table([[f"text {number}" for number in range(30)], ["x", "y"] * 15], pa.schema([field, label])), path
    )


CASES: dict[str, Spoil] = {
    **{f"{name} as weights": lambda run, it=it: sealed(run, "model.safetensors", it) for name, it in PICKLES.items()},
    **{f"weights, {name}": lambda run, it=it: sealed(run, "model.safetensors", it) for name, it in SAFETENSORS.items()},
    **{name: lambda run, it=it: (unfinished(run), recipe(run, *it)) for name, it in ESCAPES.items()},
    "a pickle as moments": lambda run: sealed(run, "optimizer.safetensors", PICKLES["pickle 2"]),
    "a pickle as the state": lambda run: sealed(run, "state.json", PICKLES["pickle 0"]),
    "a pickle as the manifest": lambda run: (newest(run) / "manifest.json").write_bytes(PICKLES["pickle 2"]),
    "a pickle as the recipe": lambda run: (run / "recipe.toml").write_bytes(PICKLES["pickle 0"]),
    "a deep state": lambda run: sealed(run, "state.json", deep()),
    "a deep manifest": lambda run: (newest(run) / "manifest.json").write_bytes(deep()),
    "a step that is a text": lambda run: state(run, step="__class__"),
    "a best step that is a path": lambda run: state(run, best_step="../../canary"),
    "an unknown field of the state": lambda run: (unfinished(run), state(run, __class__="os:system")),
    "a manifest with ..": lambda run: listed(run, **{"../../../canary-file": "0"}),
    "a manifest with an absolute name": lambda run: listed(run, **{"/etc/hostname": "0"}),
    "a manifest with a device": lambda run: listed(run, **{"/dev/zero": "0"}),
    "a manifest with a pipe": lambda run: (os.mkfifo(newest(run) / "pipe"), listed(run, pipe="0")),
}
MENDED_ELSEWHERE = {
    *("a deep recipe", "a deep state", "a deep manifest", "a step that is a text", "a best step that is a path"),
    *("an unknown field of the state", "a manifest with a device", "a manifest with a pipe"),
    *("more digits than a number has", "model_type={}", "model_type=[]", "model_type={'a': {}}"),
}
LINKS = {  # what a run writes or removes when it is trained, as a link to something of the user's
    "metrics.jsonl": "canary-file",
    ".writing-metrics.jsonl": "canary-file",
    "predictions.safetensors": "canary-file",
    ".writing-results.json": "canary-file",
    "lock": "canary-file",
    "checkpoints": "canary-folder",
    "tensorboard": "canary-folder",
}
EXTRAS: dict[str, Spoil] = {  # files that mean something elsewhere, and nothing here
    "pickles beside the weights": lambda run: [
        (folder / name).write_bytes(PICKLES["torch.save"])
        for folder in (run, newest(run))
        for name in ("pytorch_model.bin", "model.pt", "data.pkl", "training_args.bin")
    ],
    "modules": lambda run: [
        (run / name).write_text(f"import os; os.system({COMMAND!r})")
        for name in ("__init__.py", "sitecustomize.py", "conftest.py", "parity.py", "headway.py", "setup.py")
    ],
    "a pickle as predictions": lambda run: (run / "predictions.safetensors").write_bytes(PICKLES["pickle 2"]),
    "a pickle in TensorBoard's folder": lambda run: (
        (run / "tensorboard").mkdir(exist_ok=True),
        (run / "tensorboard" / "events.out.tfevents.1").write_bytes(PICKLES["pickle 2"]),
    ),
}


# --- vectors, data, and models of another library


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
REFUSED: dict[str, Spoil] = {
    **{
        f"model_type={kind!r:.20}": lambda model, kind=kind: described(model, model_type=kind)
        for kind in ({}, [], None, 0, "../../gpt2", "__class__", "os:system", "x" * 5000, {"a": {}})
    },
    "a pickle as config": lambda model: (model / "config.json").write_bytes(PICKLES["pickle 0"]),
    "a pickle as tokenizer": lambda model: (model / "tokenizer.json").write_bytes(PICKLES["pickle 2"]),
    "a deep tokenizer": lambda model: (model / "tokenizer.json").write_bytes(deep()),
    "a tokenizer of Python": lambda model: (model / "tokenizer.json").write_text(
        '{"version": "1.0", "pre_tokenizer": {"type": "Custom", "module": "os"}, "model": {"type": "os.system"}}'
    ),
    "only a pickle": lambda model: (model / "model.safetensors").rename(model / "pytorch_model.bin"),
    "a pickle as safetensors": lambda model: (model / "model.safetensors").write_bytes(PICKLES["torch.save"]),
}
