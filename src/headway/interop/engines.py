"""Other engines for a run's own verbs: an export is made when it is first asked for, and kept in the run."""

from pathlib import Path
from typing import Any, NamedTuple

from headway.config.errors import Problem, did_you_mean
from headway.config.imports import library
from headway.interop import export
from headway.interop.exportable import Exportable
from headway.interop.to_ctranslate2 import Engine
from headway.runs.run import Run

HEADWAY = "headway"
ENGINES = {HEADWAY: "this library", "ctranslate2": "CTranslate2"}
FOLDER = "exports"


class Opened(NamedTuple):
    engine: Engine
    source: Exportable
    folder: Path
    note: str  # about it, in one line


def open_engine(run: Run, name: str) -> Opened:
    """Refused where the run has parts that the engine has not."""
    if name not in ENGINES:
        raise Problem(f"no such engine {name!r}; {did_you_mean(name, ENGINES)}")
    library(name, name)
    folder = run.folder / FOLDER / f"{name}-{run.final_checkpoint().step}"
    note = f"by {ENGINES[name]}, from the export in {folder}"
    if not folder.exists():
        exported = export(run, folder, name)
        note += f"; made now, and the same for all of {exported.texts} texts tried"
    source = Exportable(run)
    return Opened(Engine(folder, source), source, folder, note)


def translations(opened: Opened, texts: list[str], language: str | None, beams: int | None, penalty: Any) -> list[str]:
    """Of an empty text, an empty one."""
    translator = opened.source.translator
    if translator is None:
        raise Problem(f"{opened.source.run.folder} does not translate")
    into = translator.into(language)
    first = tuple(into.tag) if len(translator.tags) > 1 else ()
    beam = translator.beam
    chosen = beam.width if beams is None else beams, beam.length_penalty if penalty is None else penalty
    written = iter(opened.engine.translate([text for text in texts if text.strip()], *chosen, first))
    return [next(written) if text.strip() else "" for text in texts]
