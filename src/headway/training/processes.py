"""Starting the other processes of a run, and ending all of them when one has died. Imports Lightning Fabric."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from headway.training.world import Launcher, is_restarted, refuse_unreachable

ENVIRONMENTS: dict[str, Callable[[], ClusterEnvironment]] = {
    "torchrun": TorchElasticEnvironment,
    "SLURM": lambda: SLURMEnvironment(auto_requeue=False),
}
LONGEST_WAIT = timedelta(minutes=30)  # for the others, which may be saving or evaluating
GRACE = 10.0  # seconds in which this process may say more precisely what happened than that another one has ended


def environment(launcher: Launcher | None) -> ClusterEnvironment:
    return LightningEnvironment() if launcher is None else ENVIRONMENTS[launcher.name]()


class Starting(_SubprocessScriptLauncher):
    """Starts the same command once for each other process of this machine."""

    def launch(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.cluster_environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        if not self.cluster_environment.creates_processes_externally:
            self._call_children_scripts()
            threading.Thread(target=watch, args=(self.procs,), daemon=True).start()
        elif self.cluster_environment.global_rank() > 0:
            refuse_unreachable(self.cluster_environment.main_address, self.cluster_environment.main_port)
        return function(*args, **options)


class Processes(DDPStrategy):
    def __init__(self, backend: str) -> None:
        super().__init__(process_group_backend=backend, timeout=LONGEST_WAIT)
        self.backend = backend

    def _setup_distributed(self) -> None:
        """torchrun keeps its store when it starts all processes of a machine again: they must not read the addresses
        of those that are gone."""
        if is_restarted() and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            assert self.cluster_environment is not None
            distributed: Any = torch.distributed  # which has no types for its stores
            address, port = self.cluster_environment.main_address, self.cluster_environment.main_port
            rank, world = self.cluster_environment.global_rank(), self.cluster_environment.world_size()
            everyone = distributed.TCPStore(address, port, is_master=False, timeout=LONGEST_WAIT)
            store = distributed.PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", everyone)
            distributed.init_process_group(self.backend, store=store, rank=rank, world_size=world, timeout=LONGEST_WAIT)
        super()._setup_distributed()

    def _configure_launcher(self) -> None:
        assert self.cluster_environment is not None
        self._launcher = Starting(self.cluster_environment, self.num_processes, self.num_nodes)


def watch(others: Sequence["subprocess.Popen[bytes]"], grace: float = GRACE, every: float = 0.5) -> None:
    """End this process if another one has failed: it might wait for that one for ever."""
    while all(other.poll() in (None, 0) for other in others):
        if all(other.poll() == 0 for other in others):
            return
        time.sleep(every)
    time.sleep(grace)
    failed = next(number for number, other in enumerate(others, start=1) if other.poll())
    how = f"process {failed} of {len(others) + 1} has ended with code {others[failed - 1].returncode}"
    print(f"headway: {how}: the last checkpoint is whole, resume the run", file=sys.stderr, flush=True)
    os._exit(1)  # the others end with this one
