"""The processes of a run as whoever started them counts them: this command itself, torchrun, or SLURM.

This command starts the others on one machine. On several, a launcher does: its world is given, and a run that was set
up for another one is refused, instead of being trained several times side by side.
"""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from headway.config.errors import Problem
from headway.config.parallel import Layout, layout_of
from headway.config.recipe import TrainSpec

OF_TORCHRUN = {"RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"}
PATIENCE = 60.0  # seconds until the first process has to be there


@dataclass(frozen=True)
class Launcher:
    name: str
    world: int
    nodes: int


def launcher(environment: Mapping[str, str] = os.environ) -> Launcher | None:
    """Who has started this process as one of several, if it was not this command."""
    if environment.keys() >= OF_TORCHRUN:
        world, per_node = int(environment["WORLD_SIZE"]), int(environment["LOCAL_WORLD_SIZE"])
        return Launcher("torchrun", world, int(environment.get("GROUP_WORLD_SIZE", world // per_node)))
    tasks = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if tasks > 1:  # a single task is a plain command, which may start others
        return Launcher("SLURM", tasks, int(environment.get("SLURM_STEP_NUM_NODES", 1)))
    return None


def is_restarted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether torchrun has started all processes again, because one of them had died."""
    return int(environment.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0


def may_restart(environment: Mapping[str, str] = os.environ) -> bool:
    return int(environment.get("TORCHELASTIC_MAX_RESTARTS", 0)) > 0


def world_of(spec: TrainSpec) -> Layout:
    """The grid of processes, which are those that a launcher has started, if there is one."""
    layout, given = layout_of(spec), launcher()
    asked = f"train.parallel={layout}" if spec.parallel else f"train.processes={spec.processes}"
    if given is None:
        if layout.nodes > 1:
            how = f"torchrun --nnodes={layout.nodes} --nproc-per-node={layout.per_node} -m headway ..."
            raise Problem(f"train.nodes={layout.nodes}, but this command starts processes on one machine only: {how}")
        return layout
    if given.world != layout.world:
        remedy = f"set train.parallel, such as data:{given.world}, or start {layout.world}"
        raise Problem(f"{given.name} has started {given.world} processes, but {asked} makes {layout.world}: {remedy}")
    if given.nodes != layout.nodes:
        machines = f"{given.name} runs on {given.nodes} machines, but train.nodes={layout.nodes}"
        raise Problem(f"{machines}: set train.nodes={given.nodes}")
    return layout


def refuse_unreachable(address: str, port: int, patience: float = PATIENCE) -> None:
    """Before a process joins the others: wait for the first one, but not for ever."""
    until = time.monotonic() + patience
    while True:
        try:
            socket.create_connection((address, port), timeout=max(until - time.monotonic(), 0.1)).close()
            return
        except OSError as error:
            if time.monotonic() >= until:
                where = f"the first process, at {address} port {port}"
                raise Problem(f"{where}, cannot be reached for {patience:g} seconds: {error}") from None
        time.sleep(min(0.5, patience / 10))
