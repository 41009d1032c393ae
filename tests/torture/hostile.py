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
from functools import partial
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
    unfinished(run)
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


def piped(run: Path) -> None:
    os.mkfifo(newest(run) / "pipe")
    listed(run, pipe="0")


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
    **{f"{name} as weights": partial(sealed, name="model.safetensors", content=it) for name, it in PICKLES.items()},
    **{f"weights, {name}": partial(sealed, name="model.safetensors", content=it) for name, it in SAFETENSORS.items()},
    **{name: partial(recipe, before=before, after=after) for name, (before, after) in ESCAPES.items()},
    "a pickle as moments": lambda run: sealed(run, "optimizer.safetensors", PICKLES["pickle 2"]),
    "a pickle as the state": lambda run: sealed(run, "state.json", PICKLES["pickle 0"]),
    "a pickle as the manifest": lambda run: (newest(run) / "manifest.json").write_bytes(PICKLES["pickle 2"]),
    "a pickle as the recipe": lambda run: (run / "recipe.toml").write_bytes(PICKLES["pickle 0"]),
    "a deep state": lambda run: sealed(run, "state.json", deep()),
    "a deep manifest": lambda run: (newest(run) / "manifest.json").write_bytes(deep()),
    "a step that is a text": lambda run: state(run, step="__class__"),
    "a best step that is a path": lambda run: state(run, best_step="../../canary"),
    "an unknown field of the state": lambda run: state(run, __class__="os:system"),
    "a manifest with ..": lambda run: listed(run, **{"../../../canary-file": "0"}),
    "a manifest with an absolute name": lambda run: listed(run, **{"/etc/hostname": "0"}),
    "a manifest with a device": lambda run: listed(run, **{"/dev/zero": "0"}),
    "a manifest with a pipe": piped,
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
    "a pickle in TensorBoard's folder": lambda run: (run / "tensorboard" / "events.out.tfevents.1").write_bytes(
        PICKLES["pickle 2"]
    ),
}
