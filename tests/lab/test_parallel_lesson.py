"""The lesson on parallelism: what it says is what ranks do."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

import headway as hw
from conftest import Outcome
from headway import recipes
from headway.config.parallel import AXES, Layout
from headway.lab import interference
from headway.lab.parallel_lesson import Kind
from headway.lab.threads import Threaded
from headway.lab.threads import together as in_threads
from headway.nn.collectives import Axis, local_part
from headway.training.shares import Shares, ranks_of
from ranks import together

SMALL = ["data.examples=40", "data.tests=10", "model.width=16", "model.heads=4", "train.batch_size=8"]


@pytest.fixture(scope="module")
def lesson() -> hw.ParallelLesson:
    return hw.explain_parallel("parity", settings=[*SMALL, "model.norm=rezero", "model.feedforward=swiglu"])


def test_what_is_sent_at_the_parts_adds_up_to_the_plan_and_the_formulas(lesson: hw.ParallelLesson) -> None:
    assert [kind.axis for kind in lesson.kinds] == list(AXES)
    for kind in lesson.kinds:
        assert kind.plan is not None
        assert total(kind) == {name.partition(" ")[2]: count for name, count in kind.plan.sent.items()}
        assert kind.plan.sent == kind.plan.formulas


def total(kind: Kind) -> dict[str, int]:
    counts = dict(kind.gradients)
    for part in kind.parts:
        for sent in (part.forward, part.backward):
            for name, count in sent.items():
                counts[name] = counts.get(name, 0) + part.blocks * count
    return counts


@pytest.mark.parametrize("axis", AXES)
def test_weights_stand_where_it_says(lesson: hw.ParallelLesson, axis: str) -> None:
    """As many numbers of each rank as the coloured parts of the matrices hold."""
    task = recipes.task("parity", [*SMALL, "model.norm=rezero", "model.feedforward=swiglu"])
    task.prepare()
    kind = next(kind for kind in lesson.kinds if kind.axis == axis)

    def held(rank: int) -> int:
        model = task.model()
        Shares(model, ranks_of(Layout({axis: 2}), rank))
        return sum(local_part(weight).numel() for weight in model.parameters())

    for rank, numbers in enumerate(together(2, held)):
        said = 0.0
        for part in kind.parts:
            for weight in part.weights:
                share = sum(end - start for start, end in weight.spans[rank])
                said += part.blocks * share * torch.Size(weight.shape).numel()
        assert said == pytest.approx(numbers)


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("reach", [(2, 1), (3, 0), (0, 2)])
def test_without_a_halo_the_tokens_at_the_cuts_are_wrong_and_no_others(processes: int, reach: tuple[int, int]) -> None:
    before, after = reach
    words = [*SMALL, f"model.feedforward=neighbourhood(before={before}, after={after})", "data.shortest=16"]
    lesson = hw.explain_parallel("parity", settings=words, processes=processes)
    assert lesson.changes == ""
    data, tensor, blind, halo = lesson.neighbours
    assert [data.is_right, tensor.is_right, blind.is_right, halo.is_right] == [True, True, False, True]
    assert blind.gradient is not None
    assert blind.gradient > 1e-4
    expected = {token for cut in blind.cuts for token in range(cut - after, cut + before)}
    assert {token for token, error in enumerate(blind.first) if error > blind.exact} == expected
    for right in (data, tensor, halo):
        assert max(*right.first, *right.last) < 1e-12


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_in_threads_send_each_other_what_torch_would(ranks: int) -> None:
    def sendings(axis: Axis) -> list[Tensor]:
        x = torch.arange(24.0).view(2, 12) + 100 * axis.rank
        halo = axis.neighbours(x[:, 10:], x[:, :3])
        return [axis.sum(x), axis.gather(x, 1), axis.scatter_sum(x, 1), axis.exchange(x, 1, 0), *halo]

    by_torch = together(ranks, lambda rank: sendings(Axis("tensor", rank, ranks)))
    for own, expected in zip(in_threads("tensor", ranks, sendings), by_torch, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(own, expected, strict=True))


def test_an_error_in_a_thread_ends_all_of_them() -> None:
    def body(axis: Axis) -> Tensor:
        if axis.rank == 1:
            raise ValueError("no")
        return axis.sum(torch.zeros(1))

    with pytest.raises(ValueError, match="no"):
        in_threads("tensor", 3, body, Threaded)


def test_what_a_model_cannot_do_is_said(headway: Callable[..., Outcome]) -> None:
    outcome = headway("parallel", "parity", *SMALL, "model.mixer=lstm", "train.parallel=context:2,tensor:2")
    assert outcome.code == 0
    assert outcome.out.count("refused: train.parallel: a recurrent part cannot read a sequence in slices") == 3
    few = hw.explain_parallel("parity", settings=[*SMALL, "train.parallel=context:16"])
    assert "needs as many in each share of a sequence" in few.neighbours[-1].refused
    assert not few.kinds[0].refused  # this model does not read its neighbours


def test_a_large_model_is_made_smaller_where_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interference, "LARGEST", 1000)
    lesson = hw.explain_parallel("parity", settings=[*SMALL, "model.layers=3"])
    assert lesson.changes == "model.feedforward=neighbourhood model.width=64 model.layers=2"
    assert lesson.neighbours[-1].is_right


@pytest.mark.parametrize("recipe", ["numbers", "substring"])  # an encoder and a decoder; a model that looks back only
def test_other_models(recipe: str) -> None:
    words = ["data.examples=40", "data.tests=10", "model.width=16", "model.heads=4", "train.batch_size=8"]
    lesson = hw.explain_parallel(recipe, settings=words)
    assert [each.is_right for each in lesson.neighbours] == [True, True, False, True]
    assert not any(kind.refused for kind in lesson.kinds)


def test_packed_batches_have_no_tokens_of_their_own_to_show(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"The cat sat on {each} mats. It then slept for a long time.\n" for each in range(200)))
    words = [f"data.train={texts}", "model.layers=1", "model.width=16", "model.heads=4", "train.batch_size=8"]
    lesson = hw.explain_parallel("pretrain", settings=words)
    assert "computes with numbers that a plan does not have" in lesson.kinds[0].refused
    assert all(kind.refused for kind in lesson.kinds)
    data, tensor, blind, halo = lesson.neighbours
    assert (data.is_right, data.first, tensor.is_right, tensor.first) == (True, (), True, ())
    assert "packed batches cannot be read in slices" in blind.refused
    assert blind.refused == halo.refused


def test_the_command(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    picture = tmp_path / "lesson.svg"
    words = ["parallel", "parity", *SMALL, "train.parallel=tensor:4,data:8"]
    outcome = headway(*words, "--svg", str(picture))
    assert outcome.code == 0
    assert "tensor:4 shares out the heads and hidden units of each layer" in outcome.out
    assert "█···█···█···" in outcome.out  # of the queries, keys and values
    assert "process 3 …" in outcome.out
    assert f"next: headway plan parity {' '.join(SMALL)} train.parallel=tensor:4" in outcome.out
    root = ElementTree.fromstring(picture.read_text())
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"data:8", "tensor:4", "context:8, without a halo"} <= {*texts}
    written = json.loads(headway(*words, "--json").out)
    assert written["kinds"][0]["axis"] == "tensor"
    assert written["neighbours"][2]["halo"] is False
    refusals: dict[tuple[str, ...], str] = {
        ("vectors", "data.train=x.txt"): "vectors trains in one process: there is nothing to share out",
        ("parity", "--processes", "1"): "--processes",
        ("parity", "--svg", str(tmp_path / "no" / "x.svg")): "cannot write x.svg: there is no folder",
        ("parity", "train.parallel=tense:2"): "there is no axis 'tense'; did you mean 'tensor'?",
        ("parity", "model.heads=5"): "cannot be split into 5 heads",
    }
    for given, message in refusals.items():
        outcome = headway("parallel", *given)
        assert outcome.code == 2
        assert message in outcome.err
        assert len(outcome.err.splitlines()) == 1
