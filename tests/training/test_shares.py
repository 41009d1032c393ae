"""A model that several ranks share computes what a whole one does, for every entry of every table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem
from headway.config.parallel import Layout
from headway.config.recipe import ModelSpec
from headway.models.build import build_classifier, build_decoder, build_encoder_decoder
from headway.models.heads import HEADS
from headway.nn import (
    ATTENTION_FUNCTIONS,
    EMBEDDINGS,
    FEEDFORWARDS,
    INITS,
    MIXERS,
    NORMS,
    PLACEMENTS,
    POOLINGS,
    POSITIONS,
    feedforward,
)
from headway.nn.collectives import Axis, local_part
from headway.nn.cutting import Columns, Rows
from headway.objectives.likelihood import cross_entropy
from headway.training.checkpoint import load_weights, moments_of, weights_of
from headway.training.optimizers import OPTIMIZERS
from headway.training.shares import Shares, ranks_of
from ranks import together

VOCABULARY, ROWS, TIME = 11, 3, 9  # 9 tokens: two ranks cannot have the same number of them
Build = Callable[[], nn.Module]
Loss = Callable[[nn.Module], Tensor]


def tokens(time: int = TIME) -> Tensor:
    return torch.randint(VOCABULARY, (ROWS, time), generator=torch.Generator().manual_seed(5))


def shaken(build: Build) -> nn.Module:
    """The same numbers on each rank, none of them zero; drawn without torch's own generator, which threads share."""
    model = build().double()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.3 * torch.randn(weight.shape, generator=random, dtype=weight.dtype))
    return model


def decoder(**model: Any) -> tuple[Build, Loss]:
    spec = ModelSpec(**({"layers": 2, "width": 16, "heads": 4} | model))

    def loss(network: nn.Module) -> Tensor:
        read = tokens()
        logits = network(read)
        return cross_entropy(logits, read.roll(-1, 1)).total

    return lambda: build_decoder(spec, VOCABULARY, 16), loss


def classifier(**model: Any) -> tuple[Build, Loss]:
    spec = ModelSpec(**({"layers": 2, "width": 16, "heads": 4} | model))
    lengths = torch.tensor([TIME, 4, 6])

    def loss(network: nn.Module) -> Tensor:
        return nn.functional.cross_entropy(network(tokens(), lengths), torch.tensor([0, 2, 1]), reduction="sum")

    return lambda: build_classifier(spec, VOCABULARY, 16, 3), loss


def translator(**model: Any) -> tuple[Build, Loss]:
    spec = ModelSpec(**({"layers": 1, "width": 16, "heads": 4} | model))
    lengths = torch.tensor([7, 4, 6])

    def loss(network: nn.Module) -> Tensor:
        logits = network(tokens(7), tokens(), lengths)
        return cross_entropy(logits, tokens(), smoothing=0.1).total

    return lambda: build_encoder_decoder(spec, VOCABULARY, VOCABULARY, 16, joint=True), loss


def entries() -> Iterator[tuple[str, tuple[Build, Loss]]]:
    """Every entry of every table, in a model that may have it."""
    for name in FEEDFORWARDS:
        yield f"feedforward={name}", (classifier if name == "neighbourhood" else decoder)(feedforward=name)
    yield "causal neighbourhood", decoder(feedforward="neighbourhood(before=3, after=0)")
    for name in MIXERS:
        yield f"mixer={name}", decoder(mixer=name)
    for name in POSITIONS:
        yield f"position={name}", decoder(position=name)
        yield f"position={name} of an encoder", classifier(position=name)
    for name in NORMS:
        yield f"norm={name}", decoder(norm_kind=name, qk_norm=name)
    for name in PLACEMENTS:
        yield f"placement={name}", decoder(norm=name)
    for name in EMBEDDINGS:
        yield f"embedding={name}", classifier(embedding=name)
    for name in HEADS:
        yield f"head={name}", decoder(head=name)
    for name in ATTENTION_FUNCTIONS:
        yield f"attention={name}", decoder(attention=name)
    for name in POOLINGS:
        yield f"pooling={name}", classifier(pooling=name)
    for name in INITS:
        yield f"init={name}", decoder(init=name)
    yield "few keys", decoder(kv_heads=2)
    yield "one key", decoder(kv_heads=1, position="t5")
    yield "no biases", decoder(bias=False)
    yield "a bag of tokens", classifier(layers=0, position="none")
    yield "encoder-decoder", translator()
    yield "encoder-decoder, neighbourhood encoder", translator(encoder_position="alibi", position="relative")


ENTRIES = dict(entries())
REFUSED = {  # by the axis and the entry
    ("context", "mixer=rnn"): "a recurrent part cannot read a sequence in slices",
    ("context", "mixer=lstm"): "a recurrent part cannot read a sequence in slices",
    ("context", "mixer=gru"): "a recurrent part cannot read a sequence in slices",
    ("tensor", "one key"): "tensor:2 cannot share out the 4 and 1 heads of stack.blocks.0.mixer.sublayer",
}


def alone(build: Build, loss: Loss) -> dict[str, Tensor]:
    model = shaken(build)
    total = loss(model)
    total.backward()
    return {"loss": total.detach()} | gradients(model)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def shared_out(build: Build, loss: Loss, layout: Layout) -> list[dict[str, Tensor]]:
    def body(rank: int) -> dict[str, Tensor]:
        model = shaken(build)
        shares = Shares(model, ranks_of(layout, rank))
        total = loss(model)
        total.backward()
        total = shares.add_up(total.detach())
        return {"loss": total, "norm": shares.norm()} | shares.whole(gradients(model))

    return together(layout.world, body)


def assert_same(results: list[dict[str, Tensor]], expected: dict[str, Tensor], times: int = 1) -> None:
    norm = torch.stack([each.square().sum() for name, each in expected.items() if name != "loss"]).sum().sqrt()
    for own in results:
        assert own.keys() == {*expected, "norm"}
        for name, tensor in (expected | {"norm": norm}).items():
            torch.testing.assert_close(own[name], times * tensor, atol=1e-10, rtol=1e-10, msg=name)


@pytest.mark.parametrize("axis", ["shard", "tensor", "context"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_two_ranks_compute_what_one_does_or_say_which_part_cannot(entry: str, axis: str) -> None:
    build, loss = ENTRIES[entry]
    layout = Layout({axis: 2})
    if message := REFUSED.get((axis, entry)):
        with pytest.raises(BadSetting, match=message):
            shared_out(build, loss, layout)
    else:
        assert_same(shared_out(build, loss, layout), alone(build, loss))


LAYOUTS = [
    Layout({"tensor": 4}),
    Layout({"context": 4}),
    Layout({"context": 2, "tensor": 2}),
    Layout({"tensor": 2, "context": 2}),
    Layout({"data": 2, "tensor": 2}),
    Layout({"shard": 2}),
    Layout({"data": 2, "shard": 2}),
    Layout({"shard": 2, "context": 2, "tensor": 2}),
    Layout({"data": 2, "context": 2, "tensor": 2}),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("model", [decoder(position="t5", qk_norm="rmsnorm"), classifier(feedforward="neighbourhood")])
def test_grids_of_four_and_eight_ranks_compute_it_too(model: tuple[Build, Loss], layout: Layout) -> None:
    """Ranks on the axis of rows have the same rows here: the sum over them is so many times the gradient."""
    assert_same(shared_out(*model, layout), alone(*model), times=layout.size("data"))


def test_without_a_halo_the_edges_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silently: nothing else would say so."""
    build, loss = ENTRIES["feedforward=neighbourhood"]

    def alone_with_zeros(x: Tensor, axis: Axis, before: int, after: int) -> Tensor:
        return nn.functional.pad(x, (0, 0, before, after))

    monkeypatch.setattr(feedforward, "with_halo", alone_with_zeros)
    expected = alone(build, loss)
    for own in shared_out(build, loss, Layout({"context": 2})):
        assert abs(own["loss"] - expected["loss"]) > 1e-3
    assert_same(shared_out(build, loss, Layout({"tensor": 2})), expected)  # which leaves the sequence whole


def test_a_gated_layer_cut_in_one_block_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks would pair gates with the values of others."""
    build, loss = ENTRIES["feedforward=swiglu"]
    monkeypatch.setattr(feedforward.Gated, "cuts", {"inner": Columns(), "outer": Rows()})
    own, *_ = shared_out(build, loss, Layout({"tensor": 2}))
    assert abs(own["loss"] - alone(build, loss)["loss"]) > 1e-3


@pytest.mark.parametrize(
    ("model", "axis", "message"),
    [
        (
            decoder(heads=1),
            "tensor",
            "tensor:2 cannot share out the 1 heads of stack.blocks.0.mixer.sublayer: use a div",
        ),
        (
            decoder(hidden=7),
            "tensor",
            "tensor:2 cannot share out the 7 hidden units of stack.blocks.0.feedforward.subla",
        ),
        (
            decoder(feedforward="neighbourhood(before=6, after=0)"),
            "context",
            "6 tokens before and 0 after needs as many",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_one_line(model: tuple[Build, Loss], axis: str, message: str) -> None:
    with pytest.raises(Problem, match=message):
        shared_out(*model, Layout({axis: 2}))


@pytest.mark.parametrize("norm", ["pre", "rezero"])  # which has numbers that are not sharded
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_three_steps_of_every_optimizer_move_every_weight_as_in_one_process(optimizer: str, norm: str) -> None:
    build, loss = decoder(qk_norm="rmsnorm", position="relative", norm=norm, norm_kind="rmsnorm", bias=False)
    spec: dict[str, Any] = {"learning_rate": 0.05, "weight_decay": 0.1}

    def steps(rank: int, layout: Layout) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        model = shaken(build)
        shares = Shares(model, ranks_of(layout, rank))
        optimizers = OPTIMIZERS[optimizer](model, **spec)
        shares.adapt(optimizers)
        for _ in range(3):
            shares.add_up(backward_of(loss(model)))
            shares.clip(float(shares.norm()), 1.0)
            for each in optimizers:
                each.step()
                each.zero_grad()
        return shares.whole(weights_of(model)), shares.whole(moments_of(model, optimizers))

    before, (weights, moments) = weights_of(shaken(build)), steps(0, Layout({"data": 1}))
    assert all(not torch.equal(weights[name], before[name]) for name in dict(build().named_parameters()))
    for layout in (Layout({"tensor": 2}), Layout({"context": 2}), Layout({"shard": 2})):
        for own_weights, own_moments in together(2, lambda rank, layout=layout: steps(rank, layout)):  # type: ignore[misc]
            torch.testing.assert_close(own_weights, weights, atol=1e-9, rtol=1e-9)
            torch.testing.assert_close(own_moments, moments, atol=1e-9, rtol=1e-9)


def backward_of(loss: Tensor) -> Tensor:
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("layout", [Layout({"tensor": 2}), Layout({"shard": 2}), LAYOUTS[-1]], ids=str)
def test_what_is_whole_on_every_rank_is_cut_back_into_the_same_shares(layout: Layout) -> None:
    build, _ = decoder(feedforward="swiglu", kv_heads=2, position="t5")
    whole = weights_of(shaken(build))

    def body(rank: int) -> None:
        model = shaken(build)
        shares = Shares(model, ranks_of(layout, rank))
        own = weights_of(model)
        held = sum(local_part(each).numel() for each in own.values())
        assert held < 0.8 * sum(each.numel() for each in whole.values())
        own = dict(sorted(own.items(), reverse=rank == 1))  # a file is read in any order
        torch.testing.assert_close(shares.whole(own), whole, atol=0, rtol=0)
        again = shares.local(whole)
        assert all(torch.equal(local_part(again[name]), local_part(each)) for name, each in own.items())
        load_weights(model, again, Path("here"))

    together(layout.world, body)
