"""Plans: what a process would hold and send is what it does hold and send."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import torch
from torch import distributed

from conftest import Outcome
from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.config.parallel import Layout
from headway.lab.plan import Plan, plan, plans
from headway.nn.collectives import local_part, sent
from headway.tasks.task import Task
from headway.training.shares import Shares, ranks_of
from ranks import together

SMALL = ["data.examples=40", "data.tests=10", "model.width=16", "model.heads=4", "train.batch_size=8"]
GRIDS = [
    *(Layout({"data": 2}), Layout({"tensor": 2}), Layout({"context": 2}), Layout({"context": 4})),
    Layout({"data": 2, "context": 2, "tensor": 2}),
    *(Layout({"shard": 2}), Layout({"data": 2, "shard": 2}), Layout({"shard": 2, "context": 2, "tensor": 2})),
]
MODELS = [
    ["model.feedforward=neighbourhood"],
    ["model.feedforward=swiglu", "model.kv_heads=2", "model.position=rotary"],
    ["model.feedforward=none", "model.norm=rezero", "train.accumulate=2"],
]
FSDP_CALLS = {  # as torch 2.13 names them, and as it did before
    "all-gather": ("all_gather_single", "all_gather_into_tensor"),
    "reduce-scatter": ("reduce_scatter_single", "reduce_scatter_tensor"),
}


def task_with(*words: str) -> Task:
    task = recipes.task("parity", [*SMALL, *words])
    task.prepare()
    return task


@contextmanager
def sent_by_fsdp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The bytes that FSDP hands to torch's collectives, by kind."""
    counts, lock = Counter[str](), Lock()

    def counted(kind: str, collective: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            tensor = next((options[name] for name in ("input_tensor", "input") if name in options), None)
            tensor = given[1] if tensor is None else tensor
            with lock:
                counts[f"shard {kind}"] += tensor.numel() * tensor.element_size()
            return collective(*given, **options)

        return call

    with monkeypatch.context() as patch:
        for kind, names in FSDP_CALLS.items():
            name = next(name for name in names if hasattr(distributed, name))
            patch.setattr(distributed, name, counted(kind, getattr(distributed, name)))
        yield counts


def really_sent(task: Task, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Of one process on average: at the ends of a sequence there is one neighbour, elsewhere there are two."""

    def body(rank: int) -> None:
        model = task.model()
        shares = Shares(model, ranks_of(layout, rank))
        rows = 8 // layout.size("data") // layout.size("shard") // task.recipe.train.accumulate
        batch = task.splits().train.longest().take(torch.zeros(rows, dtype=torch.long))
        for _ in range(task.recipe.train.accumulate):
            loss = task.loss(model, batch).total
            loss.backward()
        shares.add_up(loss.detach())

    with sent() as meter, sent_by_fsdp(monkeypatch) as of_fsdp:
        together(layout.world, body)
    counts = {f"{axis} {kind}": count for (axis, kind), count in meter.items()} | of_fsdp
    return {name: count / layout.world for name, count in counts.items()}


@pytest.mark.parametrize("layout", GRIDS, ids=str)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model[0])
def test_a_process_sends_what_the_plan_and_the_formulas_say(
    model: list[str], layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_with(*model)
    planned = plan(task, layout)
    assert planned.sent == planned.formulas
    measured = really_sent(task, layout, monkeypatch)
    if layout.size("context") > 2 and "context halo" in measured:
        measured["context halo"] *= layout.size("context") / (layout.size("context") - 1)
    assert measured == planned.sent


def test_the_memory_of_a_plan() -> None:
    task = task_with("train.optimizer=sgd")
    whole, cut = plan(task, Layout({"data": 1})), plan(task, Layout({"tensor": 2}))
    weights = sum(weight.numel() for weight in task.model().parameters())
    assert (whole.weights, whole.gradients, whole.moments) == (4 * weights,) * 3
    assert whole.memory == 12 * weights + whole.activations
    assert whole.weights / 2 < cut.weights < whole.weights
    assert whole.sent == {}
    half = plan(task, Layout({"data": 2}))
    assert half.activations < 0.6 * whole.activations


@pytest.mark.parametrize("head", ["tied", "own(bias=True)", "transformed"])
@pytest.mark.parametrize("sizes", [{"tensor": 2}, {"tensor": 4}, {"context": 2, "tensor": 2}], ids=str)
def test_a_vocabulary_that_is_shared_out_sends_what_the_formulas_say(
    head: str, sizes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a few words that a small model may read, and then some more of them\n" * 40)
    data = [f"data.train={text}", f"data.validation={text}", "data.window=16", "data.vocab_size=270"]
    model = ["model.width=16", "model.heads=4", f"model.head={head}", "train.batch_size=8"]
    task, layout = recipes.task("language", [*data, *model]), Layout(sizes)
    task.prepare()
    planned = plan(task, layout)
    assert planned.sent == planned.formulas == really_sent(task, layout, monkeypatch)


@pytest.mark.parametrize("layout", [Layout({"shard": 2}), Layout({"shard": 2, "tensor": 2})], ids=str)
def test_a_sharded_process_holds_what_the_plan_says(layout: Layout) -> None:
    task = task_with("model.norm=rezero", "model.feedforward=swiglu")
    planned = plan(task, layout)

    def held(rank: int) -> int:
        model = task.model()
        Shares(model, ranks_of(layout, rank))
        return sum(local_part(weight).numel() for weight in model.parameters())

    assert 4 * together(layout.world, held)[0] == planned.weights == planned.gradients == planned.moments / 2
    assert plan(task, Layout({"data": 2})).gathered == 0
    assert planned.memory == sum(
        (planned.weights, planned.gradients, planned.moments, planned.activations, planned.gathered)
    )


def test_what_fsdp_puts_together_is_the_root_and_a_block_with_its_gradients_and_the_next() -> None:
    task = task_with("model.layers=3")
    sizes = {name: 4 * weight.numel() for name, weight in task.model().named_parameters()}
    block = sum(size for name, size in sizes.items() if "blocks.1." in name)
    rest = sum(size for name, size in sizes.items() if "blocks." not in name)
    assert plan(task, Layout({"shard": 2})).gathered == rest + 3 * block


def test_hundreds_of_processes_are_planned_without_one_of_them() -> None:
    (large,) = plans("parity", [*SMALL, "model.heads=16", "train.parallel=data:8,context:4,tensor:8"])
    assert (large.processes, large.sent) == (256, large.formulas)


def test_an_encoder_and_a_decoder_are_planned_without_formulas() -> None:
    words = ["data.examples=40", "data.tests=10", "model.width=16", "model.heads=4"]
    (both,) = plans("numbers", [*words, "train.parallel=context:2,tensor:2"])
    assert both.formulas == {}
    assert {"context all-to-all", "tensor all-reduce"} < both.sent.keys()


def test_all_grids_that_a_model_allows() -> None:
    listed = {each.parallel for each in plans("parity", SMALL, processes=8)}
    assert {"data:8", "context:8", "data:2,tensor:4", "data:2,context:2,tensor:2"} < listed
    assert "tensor:8" not in listed  # there are 4 heads
    assert {each.parallel for each in plans("parity", [*SMALL, "model.mixer=lstm"], 2)} == {
        *("data:2", "shard:2", "tensor:2")
    }


def test_the_command_and_its_refusals(headway: Callable[..., Outcome]) -> None:
    outcome = headway("plan", "parity", *SMALL, "--processes", "2", "--memory", "1", "--bandwidth", "1")
    assert outcome.code == 0
    assert "fits" in outcome.out
    assert "seconds" in outcome.out
    outcome = headway("plan", "parity", *SMALL, "train.parallel=tensor:2")
    assert "tensor all-reduce" in outcome.out
    assert f"next: headway train parity {' '.join(SMALL)} train.parallel=tensor:2" in outcome.out
    refusals: dict[tuple[str, ...], str] = {
        ("parity", *SMALL, "train.parallel=tensor:3"): "tensor:3 cannot share out the 4 heads",
        (
            "parity",
            *SMALL,
            "train.parallel=context:16",
            "model.feedforward=neighbourhood",
        ): "needs as many in each share",
        ("vectors", "data.train=x.txt"): "vectors trains in one process: there is nothing to plan",
        ("parity", *SMALL, "--memory", "0"): "--memory",
    }
    for words, message in refusals.items():
        outcome = headway("plan", *words)
        assert outcome.code == 2
        assert message in outcome.err


def test_a_task_whose_loss_needs_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = task_with()
    monkeypatch.setattr(type(task), "loss", lambda *given: torch.ones(3, device="meta").nonzero())
    with pytest.raises(Problem, match="parity computes with numbers that a plan does not have"):
        plan(task, Layout({"data": 1}))


def test_other_mistakes_than_a_grid_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(task: Task, layout: Layout) -> Plan:
        raise BadSetting("model.width", "is wrong")

    monkeypatch.setattr("headway.lab.plan.plan", wrong)
    with pytest.raises(BadSetting, match=r"model\.width: is wrong"):
        plans("parity", SMALL, 2)
