"""Training for an exercise: recipes with a learner's settings, each in a process of its own with limits of time and
memory. What came out is kept beside the learner's file, so that nothing is trained twice."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from headway import __version__
from headway.config.errors import Problem
from headway.config.json_files import NUMBER, read_json
from headway.data.files import Progress, silent
from headway.learn import sandbox
from headway.runs import pipeline
from headway.runs.run import Run, size_of

LIMITS = sandbox.Limits(seconds=180.0, memory=4 << 30, files=1 << 28)
POINTS = 40  # of a curve
RUNS = ".runs"  # ending of the folder beside a learner's file
QUIET = ("train.evaluate_every=100000", "train.checkpoint_every=100000", "train.threads=1", "train.device=cpu")
SHAPE = {
    "parameters": int,
    "seconds": NUMBER,
    "steps": int,
    "scores": {str: NUMBER},
    "curve": [[NUMBER]],
    "problem": str,
}

Measure = Callable[[Run], Mapping[str, float]]


def test_accuracies(run: Run) -> Mapping[str, float]:
    return {name: metrics["accuracy"] for name, metrics in run.results["test"].items()}


def import_all() -> None:
    """What every training needs, before the process for it is made, so that each one starts at once."""
    from headway.training.fabric import absent

    with absent("torchmetrics"):
        import lightning_fabric  # noqa: F401
    import torch.utils.tensorboard  # noqa: F401

    import headway.api.model
    import headway.runs.fit
    import headway.training.loop  # noqa: F401


@dataclass(frozen=True)
class Trial:
    """A recipe with all of its settings, what it starts from, and what is measured when it is trained."""

    recipe: str
    settings: tuple[str, ...]
    measure: Measure = test_accuracies
    start: "Trial | None" = None

    @property
    def key(self) -> str:
        start = self.start.key if self.start else ""
        words = [__version__, self.recipe, *self.settings, self.measure.__qualname__, start]
        return sha256("\n".join(words).encode()).hexdigest()


@dataclass(frozen=True)
class Trained:
    """What came out of a trial."""

    folder: Path
    parameters: int = 0
    seconds: float = 0.0
    steps: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[Sequence[float]] = ()  # steps and losses
    problem: str = ""  # why there is no result


def train(trial: Trial, folder: Path, progress: Progress = silent) -> Trained:
    """Train it, unless that was done before."""
    kept = folder.with_name(f"{folder.name}.json")
    if (before := read_kept(trial, kept, folder)) is not None:
        return before
    start = None if trial.start is None else train(trial.start, folder.with_name(f"{folder.name}-start"), progress)
    if start is not None and start.problem:
        return start
    import_all()
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)

    def heard(piece: bytes) -> None:
        done, of = json.loads(piece)
        progress(f"training {folder.name}", done / of)

    ran = sandbox.run(lambda: trained(trial, folder, start), LIMITS, heard)
    if ran.result is None or not ran.result:
        return Trained(folder, problem=ran.reason)
    content = json.loads(ran.result)
    if not content["problem"]:
        kept.write_text(json.dumps({"key": trial.key, **content}))
    return Trained(folder, **content)


def read_kept(trial: Trial, kept: Path, folder: Path) -> Trained | None:
    if not kept.is_file():
        return None
    try:
        content = read_json(kept, {"key": str, **SHAPE})
    except Problem:  # it is damaged: train again
        return None
    return Trained(folder, **content) if content.pop("key") == trial.key and folder.is_dir() else None


def trained(trial: Trial, folder: Path, start: Trained | None) -> bytes:
    """In a process of its own; tells about its steps on the way."""
    content = {name: value for name, value in asdict(Trained(folder)).items() if name != "folder"}
    try:
        overrides = [*QUIET, *trial.settings, *([f"start={start.folder}"] if start else [])]
        fit = pipeline.prepare(trial.recipe, overrides, pipeline.RunFolders(folder), pipeline.Silent())
        every, curve = max(1, fit.spec.steps // POINTS), list[tuple[int, float]]()
        for step in fit:
            if step.number % every == 0 or step.number == 1:
                curve.append((step.number, step.loss))
                sandbox.tell(json.dumps([step.number, fit.spec.steps]).encode())
        run = fit.run
        scores = {name: float(value) for name, value in trial.measure(run).items()}
        results = {"parameters": size_of(run.network), "seconds": run.results["seconds"], "steps": fit.spec.steps}
        content |= results | {"scores": scores, "curve": curve}
    except Problem as problem:
        content["problem"] = str(problem)
    return json.dumps(content).encode()
