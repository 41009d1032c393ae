"""Which processes train together, and who has started them."""

import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.config.parallel import Layout, layout_of
from headway.config.recipe import TrainSpec
from headway.tasks import TASKS
from headway.training import processes
from headway.training.fabric import SingleProcess, launch, threads_of
from headway.training.processes import watch
from headway.training.world import Launcher, launcher, refuse_unreachable, world_of

TORCHRUN = {
    **{"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"},
    "GROUP_WORLD_SIZE": "1",
}


def test_a_layout_is_read_from_the_left_which_is_the_outermost() -> None:
    layout = layout_of(TrainSpec(parallel="data:2, shard:3,context:1,tensor:4"))
    assert layout == Layout({"data": 2, "shard": 3, "context": 1, "tensor": 4})
    assert (layout.world, layout.size("shard"), Layout({"tensor": 2}).size("data")) == (24, 3, 1)
    assert str(layout) == "data:2,shard:3,context:1,tensor:4"
    assert layout_of(TrainSpec(processes=4)) == layout_of(TrainSpec(parallel="data:4"))
    assert layout_of(TrainSpec(processes=4, parallel="data:4")).world == 4
    assert layout_of(TrainSpec(parallel="data:8", nodes=2)).per_node == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.parallel=data"], "train.parallel: 'data' is not a list of axes and sizes, such as data:2,tensor:4"),
        (["train.parallel=dat:2"], "train.parallel: there is no axis 'dat'; did you mean 'data'?"),
        (["train.parallel=data:2,data:2"], "train.parallel: data is there twice"),
        (["train.parallel=data:0"], "train.parallel: data:0 has no process: at least 1"),
        (["train.parallel=data:999,tensor:999"], "train.parallel: 998,001 processes are too many: at most 65,536"),
        (["train.parallel=data:2", "train.processes=3"], "data:2 are 2 processes, and train.processes=3"),
        (["train.processes=3", "train.nodes=2"], "train.nodes: 3 processes cannot be shared out among 2 machines"),
        (["train.parallel=shard:2", "train.precision=fp16"], "fp16 does not work with shard parallelism: leave it out"),
        (
            ["train.parallel=context:2", "train.compile=blocks"],
            "blocks does not work with context parallelism: leave it",
        ),
        (
            ["train.parallel=tensor:2", "train.grains=2"],
            "train.grains: 2 does not work with tensor parallelism: leave it",
        ),
        (["train.grains=6"], "train.grains: 6 is not a power of two, such as 8"),
        (["train.grains=4", "train.processes=3"], "3 processes cannot have the same number of 4 groups of rows"),
        (["train.grains=2", "train.processes=4"], "4 processes cannot have the same number of 2 groups of rows"),
    ],
)
def test_a_layout_that_cannot_be_is_one_line(settings: list[str], message: str) -> None:
    with pytest.raises(BadSetting) as error:
        recipes.load("parity", settings)
    assert message in str(error.value)


def started_by(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_the_launcher_is_known_by_what_it_sets() -> None:
    assert launcher({}) is None
    assert launcher({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}) is None  # this command's own way to start another process
    assert launcher(TORCHRUN) == Launcher("torchrun", 3, 1)
    assert launcher({**TORCHRUN, "WORLD_SIZE": "6", "GROUP_WORLD_SIZE": "2"}) == Launcher("torchrun", 6, 2)
    assert launcher({"SLURM_NTASKS": "8"}) is None  # a batch script without srun is one process
    assert launcher({"SLURM_STEP_NUM_TASKS": "1"}) is None
    assert launcher({"SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2"}) == Launcher("SLURM", 8, 2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            TrainSpec(),
            "torchrun has started 3 processes, but train.processes=1 makes 1: set train.parallel, such as da",
        ),
        (TrainSpec(parallel="shard:2"), "torchrun has started 3 processes, but train.parallel=shard:2 makes 2"),
        (TrainSpec(processes=3, nodes=3), "torchrun runs on 1 machines, but train.nodes=3: set train.nodes=1"),
    ],
)
def test_another_world_than_the_launcher_has_made_is_refused(
    spec: TrainSpec, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of its processes would train the whole run by itself."""
    started_by(monkeypatch, TORCHRUN)
    for start in (world_of, launch, SingleProcess):
        with pytest.raises(Problem, match="^" + message.replace("(", r"\(")):
            start(spec)


def test_the_world_of_a_launcher_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    started_by(monkeypatch, TORCHRUN)
    assert world_of(TrainSpec(processes=3)).world == 3


def test_several_machines_need_a_launcher() -> None:
    with pytest.raises(Problem, match=r"one machine only: torchrun --nnodes=2 --nproc-per-node=4 -m headway \.\.\."):
        world_of(TrainSpec(processes=8, nodes=2))


def test_a_first_process_that_cannot_be_reached_is_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Problem, match=f"the first process, at 127.0.0.1 port {port}, cannot be reached for 0.1 sec"):
        refuse_unreachable("127.0.0.1", port, patience=0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        refuse_unreachable("127.0.0.1", server.getsockname()[1], patience=0.1)


def test_grains_fix_the_number_of_threads() -> None:
    one, two = Layout({"data": 1}), Layout({"data": 2})
    assert threads_of(TrainSpec(grains=2), one) == threads_of(TrainSpec(grains=2), two) == 1
    assert threads_of(TrainSpec(threads=3), two) == threads_of(TrainSpec(threads=3, grains=2), one) == 3


class Left(Exception):
    pass


def leave(code: int) -> None:
    raise Left(code)


def test_a_process_that_has_failed_ends_the_one_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "os", type("Os", (), {"_exit": staticmethod(leave)}))
    codes: Iterable[Any] = (
        subprocess.Popen([sys.executable, "-S", "-c", f"import os; os._exit({code})"]) for code in (0, 3)
    )
    others = list(codes)
    with pytest.raises(Left, match="1"):
        watch(others, grace=0.0, every=0.01)
    line = "headway: process 2 of 3 has ended with code 3: the last checkpoint is whole, resume the run\n"
    assert capsys.readouterr().err == line
    watch([others[0]], grace=0.0)  # all is well


@pytest.mark.parametrize("recipe", ["sft", "ppo", "dpo", "reward"])
def test_what_trains_in_one_process_says_so(recipe: str) -> None:
    kind = TASKS[recipe]
    spec = recipes.resolve({"task": recipe, "name": "x", "train": {"parallel": "data:2"}})
    with pytest.raises(BadSetting, match=r"train\.parallel: prompts with answers train in one process: leave it out"):
        kind(spec)
    with pytest.raises(BadSetting, match=r"train\.parallel: word vectors have their own training engine without it"):
        recipes.load("vectors", ["data.train=x", "train.parallel=data:2"])
