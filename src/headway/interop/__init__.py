"""Interoperability: export a run to a folder that works without headway, checked against the run.

- transformers: a model of that library, if it has one made of the same parts
- torch: a program that torch runs by itself (torch.export)
- onnx: the same for ONNX runtimes
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headway.config.errors import Problem, did_you_mean
from headway.data.storage import new_folder
from headway.interop.programs import write_onnx, write_torch
from headway.interop.to_transformers import write_transformers
from headway.runs.run import Run


class Exported(NamedTuple):
    folder: Path
    kind: str  # type of model or program
    max_difference: float  # between its outputs and the run's, relative to the largest output


FORMS: dict[str, Callable[[Run, Path], tuple[str, float]]] = {
    "transformers": write_transformers,
    "torch": write_torch,
    "onnx": write_onnx,
}


def export(run: Run, out: Path, form: str = "transformers") -> Exported:
    """The folder appears once it is complete and checked."""
    if form not in FORMS:
        raise Problem(f"no such format {form!r}; {did_you_mean(form, FORMS)}")
    if out.exists():
        raise Problem(f"{out} already exists: choose another folder, or remove it")
    try:
        with new_folder(out) as new:
            kind, max_difference = FORMS[form](run, new.path)
    except OSError as error:
        raise Problem(f"cannot write {out}: {error}") from error
    return Exported(out, kind, max_difference)
