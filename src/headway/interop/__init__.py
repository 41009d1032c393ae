"""Interoperability: export a run to a folder that works without headway, proven against the run.

- transformers: a model of that library, if it has one made of the same parts
- torch: a program that torch runs by itself (torch.export)
- onnx: programs for ONNX runtimes, with a runner of a few lines
- ctranslate2: a model of that engine, for translators and language models
- gguf: one file for llama.cpp and its like, for language models
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headway.config.errors import Problem, did_you_mean
from headway.data.storage import new_folder
from headway.interop.card import write_card
from headway.interop.exportable import Exportable, Proof
from headway.interop.programs import write_torch
from headway.interop.to_ctranslate2 import write_ctranslate2
from headway.interop.to_gguf import write_gguf
from headway.interop.to_onnx import write_onnx
from headway.interop.to_transformers import write_transformers
from headway.runs.run import Run


class Exported(NamedTuple):
    folder: Path
    kind: str  # type of model or program
    max_difference: float  # between its outputs and the run's, relative to the largest output
    same: int = 0  # texts of which it makes the same as the run,
    texts: int = 0  # of so many that were tried


FORMS: dict[str, Callable[..., tuple[str, Proof]]] = {
    "transformers": write_transformers,
    "torch": write_torch,
    "onnx": write_onnx,
    "ctranslate2": write_ctranslate2,
    "gguf": write_gguf,
}
QUANTIZED = ("onnx", "ctranslate2", "gguf")  # those with a form in int8


def export(run: Run, out: Path, form: str = "transformers", int8: bool = False, license: str = "unknown") -> Exported:
    """The folder appears once it is complete and checked."""
    if form not in FORMS:
        raise Problem(f"no such format {form!r}; {did_you_mean(form, FORMS)}")
    if int8 and form not in QUANTIZED:
        raise Problem(f"{form} has no int8: it is for {', '.join(QUANTIZED)}")
    if out.exists():
        raise Problem(f"{out} already exists: choose another folder, or remove it")
    source = Exportable(run)
    try:
        with new_folder(out) as new:
            kind, proof = FORMS[form](source, new.path, **({"int8": True} if int8 else {}))
            write_card(source, form, kind, proof, license, new.path)
    except OSError as error:
        raise Problem(f"cannot write {out}: {error}") from error
    return Exported(out, kind, *proof)
