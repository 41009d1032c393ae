"""Segments of a run: it may be stopped here and resumed elsewhere, on other processes, and ``about.json`` has each."""

import json
import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import torch

from headway.config.errors import BadSetting, Problem
from headway.config.parallel import layout_of, refuse_impossible
from headway.config.recipe import TrainSpec
from headway.config.settings import to_toml
from headway.data.memory import portable
from headway.data.storage import write_whole
from headway.runs.run import ABOUT, Run
from headway.training import checkpoint
from headway.training.finite import NotFinite
from headway.training.shares import refuse_untried

WHERE = ("train.parallel", "train.processes", "train.nodes", "train.device", "train.threads")
UNTIL = ("train.steps", "train.epochs", "train.minutes", "train.patience")
HOW_OFTEN = ("train.log_every", "train.evaluate_every", "train.checkpoint_every")
SEGMENTS = "segments"
OF_THE_OTHERS = re.compile(  # what torch says when a process has died
    r"gloo/transport|connection (closed|reset|refused)|closed by peer|broken pipe|remote process exited|watchdog", re.I
)


class Lost(Problem):
    """Another process has died."""

    exit_code = 1


def move(run: Run, overrides: Sequence[str]) -> str | None:
    """Let a run go on somewhere else, or end at another time. How long it trains is part of its recipe from then on,
    of which the text is returned; where it runs is not."""
    keys = {override.partition("=")[0].strip() for override in overrides}
    run.read_recipe(overrides)  # refuses what is no setting
    if kept := sorted(keys - {*WHERE, *UNTIL, *HOW_OFTEN}):
        where, until, often = (
            ", ".join(key.removeprefix("train.") for key in each) for each in (WHERE, UNTIL, HOW_OFTEN)
        )
        may = f"only where it runs ({where}), when it ends ({until}) and how often it logs ({often}) may change"
        other = f"with other settings, a new run can start from it: start={run.folder}"
        raise BadSetting(kept[0], f"a run that is resumed keeps its settings; {may}; {other}")
    lasting = [override for override in overrides if override.partition("=")[0].strip() not in WHERE]
    text = None
    if lasting:
        recipe = run.read_recipe(lasting)
        refuse_fewer_steps(run, recipe.train.steps if "train.steps" in keys else None)
        text = to_toml(portable(recipe, run.folder))
    other_axis = {"train.parallel": "train.processes=1", "train.processes": "train.parallel=none"}
    unset = [reset for key, reset in other_axis.items() if key in keys and reset.partition("=")[0] not in keys]
    run.recipe = run.read_recipe([*unset, *overrides])
    refuse_impossible(run.recipe.train)
    refuse_untried(run.recipe.train)
    return text


def refuse_fewer_steps(run: Run, steps: int | None) -> None:
    done = max(checkpoint.steps_in(run.checkpoints), default=0)
    if steps is not None and steps < done:
        raise BadSetting("train.steps", f"{steps:,} is too small: {run.folder} has done {done:,} steps already")


def record(run: Run, spec: TrainSpec, step: int, device: torch.device) -> None:
    """Add what is about to be trained to ``about.json``."""
    segment = {
        "after_step": step,
        "started": datetime.now().isoformat(timespec="milliseconds"),
        "parallel": str(layout_of(spec)),
        "nodes": spec.nodes,
        "until": {"steps": spec.steps, "minutes": spec.minutes},
        "device": device.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    about = run.about
    write_whole(run.folder / ABOUT, json.dumps(about | {SEGMENTS: [*about.get(SEGMENTS, []), segment]}, indent=2))


def changes(run: Run, spec: TrainSpec) -> list[str]:
    """What is different from the segment before, as far as results depend on it."""
    about, now = run.about, torch.get_num_threads()
    notes = []
    if about["threads"] != now:
        started = f"the run started with {about['threads']} threads and continues with {now}"
        notes.append(f"{started}: rounding may differ")
    before = (about.get(SEGMENTS) or [{}])[-1].get("parallel")
    if before not in (None, str(layout_of(spec))) and spec.grains is None:
        exact = "train.grains, set from the start, makes them the same"
        notes.append(f"the run had {before} and continues with {layout_of(spec)}: dropout and rounding differ; {exact}")
    return notes


def lost(run: Run, error: RuntimeError, processes: int) -> Lost | None:
    """The problem, if an error is about a process that is gone."""
    if processes == 1 or not OF_THE_OTHERS.search(str(error)):
        return None
    kept = checkpoint.steps_in(run.checkpoints)
    last = f"the checkpoint of step {kept[0]} is whole" if kept else "there is no checkpoint yet"
    return Lost(f"one of the {processes} processes has died; {last}: headway resume {run.folder} continues")


def explained(run: Run, error: NotFinite, batch: np.ndarray) -> NotFinite:
    """With the batch, what is kept, and what to do."""
    rows = ", ".join(str(row) for row in batch[:8])
    kept = checkpoint.steps_in(run.checkpoints)
    last = f"the checkpoint of step {kept[0]} is kept" if kept else "there is no earlier checkpoint"
    advice = "try a lower train.learning_rate or a longer train.warmup"
    return NotFinite(error.step, f"{error}; batch: training rows {rows}, ...; {last}; {advice}")
