"""Models out: a run becomes a folder that needs no headway, proven beside the run.

- transformers: a model of that library, if one is made of the same parts
- torch: a program that torch runs by itself (torch.export)
- onnx: the same for ONNX, which many other runtimes read
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headway.config.errors import Problem
from headway.interop.programs import write_onnx, write_torch
from headway.interop.to_transformers import write_transformers
from headway.runs.run import Run


class Exported(NamedTuple):
    folder: Path
    kind: str  # what it has become
    apart: float  # how far its outputs are from the run's, at most, relative to their size


FORMS: dict[str, Callable[[Run, Path], tuple[str, float]]] = {
    "transformers": write_transformers,
    "torch": write_torch,
    "onnx": write_onnx,
}


def export(run: Run, out: Path, form: str = "transformers") -> Exported:
    """Written beside, proven, and renamed: a folder that is there is whole."""
    if out.exists():
        raise Problem(f"{out} is there already: name another folder, or remove it")
    beside = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".new-", dir=out.parent))
        kind, apart = FORMS[form](run, beside)
        beside.chmod(0o755)
        beside.rename(out)
    except OSError as error:
        raise Problem(f"cannot write {out}: {error}") from error
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
    return Exported(out, kind, apart)
