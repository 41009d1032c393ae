"""Norms, feed-forward networks, residuals, embeddings, pooling and dropout, against their formulas."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conftest import shake
from headway.config.errors import Problem
from headway.config.parts import part
from headway.models import ModelSpec, build_decoder, build_encoder, build_encoder_decoder
from headway.models.heads import HEADS
from headway.nn import (
    FEEDFORWARDS,
    NORMS,
    PLACEMENTS,
    POOLINGS,
    Block,
    Context,
    Embedding,
    FeedForward,
    Gated,
    LayerNorm,
    Neighbourhood,
    NGrams,
    OneHot,
    PostNorm,
    PreNorm,
    Region,
    ReZero,
    SelfAttention,
    drop,
)
from headway.nn.embedding import MULTIPLIER
from headway.nn.lora import add_lora, merge_lora
from headway.nn.masks import real_tokens

X = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(1))


def test_layernorm() -> None:
    norm: Any = shake(NORMS["layernorm"](8))
    x = X.double()
    centred = x - x.mean(dim=-1, keepdim=True)
    expected = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(norm(X).double(), expected, atol=1e-5, rtol=1e-5)


def test_rmsnorm() -> None:
    norm: Any = shake(NORMS["rmsnorm"](8))
    x = X.double()
    expected = x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    torch.testing.assert_close(norm(X).double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in NORMS if name != "none"])
def test_a_norm_without_weights_is_one_with_ones(name: str) -> None:
    norm = part(NORMS, f"{name}(weight=False)", "model.norm_kind", width=8)
    assert not list(norm.parameters())
    torch.testing.assert_close(norm(X), part(NORMS, name, "model.norm_kind", width=8)(X))


@pytest.mark.parametrize("bias", [True, False])
def test_what_writes_into_the_stream_may_start_at_zero(bias: bool) -> None:
    spec = ModelSpec(layers=3, width=8, heads=2, position="rotary", init="zero", norm_kind="none", bias=bias)
    encoder = build_encoder(spec, 11, 6)
    tokens = torch.randint(11, (2, 6))
    torch.testing.assert_close(encoder(tokens), encoder.embedding(tokens))  # every block is the identity,
    encoder(tokens).square().sum().backward()
    for name, weight in encoder.named_parameters():
        if name.endswith(("output.weight", "outer.weight")):
            assert weight.grad is not None
            assert weight.grad.any()  # and can be left


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda h: max(h, 0),
    "gelu": lambda h: h * (1 + math.erf(h / math.sqrt(2))) / 2,
    "squared_relu": lambda h: max(h, 0) ** 2,
    "sine": math.sin,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    network = part(FEEDFORWARDS, name, "feedforward", width=8, hidden=16)
    inner = X.double() @ network.inner.weight.double().T + network.inner.bias.double()
    active = inner.detach().apply_(ACTIVATIONS[name])
    expected = active @ network.outer.weight.double().T + network.outer.bias.double()
    torch.testing.assert_close(network(X).double(), expected, atol=1e-5, rtol=1e-5)


def test_the_sine_network_starts_with_a_larger_first_matrix() -> None:
    torch.manual_seed(1)
    small = part(FEEDFORWARDS, "sine(scale=1)", "feedforward", width=8, hidden=16)
    torch.manual_seed(1)
    large = part(FEEDFORWARDS, "sine(scale=30)", "feedforward", width=8, hidden=16)
    torch.testing.assert_close(large.inner.weight, 30 * small.inner.weight)
    torch.testing.assert_close(large.outer.weight, small.outer.weight)


def by_tanh(h: Tensor) -> Tensor:
    return h / 2 * (1 + ((2 / math.pi) ** 0.5 * (h + 0.044715 * h**3)).tanh())


@pytest.mark.parametrize(
    ("name", "activation"), [("swiglu", lambda h: h / (1 + (-h).exp())), ("geglu", by_tanh)], ids=["swiglu", "geglu"]
)
def test_gated(name: str, activation: Callable[[Tensor], Tensor]) -> None:
    network: Gated = part(FEEDFORWARDS, name, "feedforward", width=8, hidden=16)
    gate, value = (X.double() @ network.inner.weight.double().T + network.inner.bias.double()).split(16, dim=-1)
    expected = (activation(gate) * value) @ network.outer.weight.double().T + network.outer.bias.double()
    torch.testing.assert_close(network(X).double(), expected, atol=1e-5, rtol=1e-5)


def test_silu_and_no_biases() -> None:
    network = part(FEEDFORWARDS, "silu", "feedforward", width=8, hidden=16, bias=False)
    inner = X.double() @ network.inner.weight.double().T
    expected = inner / (1 + (-inner).exp()) @ network.outer.weight.double().T
    torch.testing.assert_close(network(X).double(), expected, atol=1e-5, rtol=1e-5)
    spec = ModelSpec(layers=1, width=8, heads=2, bias=False, norm="rezero", embedding="lookup")
    model = build_encoder_decoder(spec, 5, 5, 9)
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias")]


def test_heads() -> None:
    spec = ModelSpec(layers=1, width=8, heads=2)
    for head in HEADS:
        model: Any = shake(build_decoder(replace(spec, head=head), 11, 9)).double()
        states, table = X.double(), model.embedding.table.weight
        if head == "transformed":
            inner = F.gelu(states @ model.head.inner.weight.T + model.head.inner.bias)
            inner = F.layer_norm(inner, (8,), model.head.norm.weight, model.head.norm.bias, 1e-12)
            expected = inner @ table.T + model.head.tied.bias
        else:
            expected = states @ (model.head.weight if head == "own" else table).T
        torch.testing.assert_close(model.head(states), expected)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (0, 0), (3, 0), (0, 2)])
def test_neighbourhood_reads_the_tokens_beside_it(before: int, after: int) -> None:
    network = Neighbourhood(8, 16, before, after)
    lengths = [6, 3, 1]
    output = network(X, Context(real=real_tokens(torch.tensor(lengths), 6)))
    for row, length in enumerate(lengths):
        for position in range(length):
            window = [
                X[row, other] if 0 <= other < length else torch.zeros(8)
                for other in range(position - before, position + after + 1)
            ]
            expected = network.outer(network.inner(torch.cat(window)).relu())
            torch.testing.assert_close(output[row, position], expected)


def test_a_causal_model_refuses_to_look_ahead() -> None:
    spec = ModelSpec(width=8, heads=2, feedforward="neighbourhood")
    with pytest.raises(Problem, match="a neighbourhood part looks ahead, which a causal model must not do: set after"):
        build_decoder(spec, vocabulary=5, length=6)
    with pytest.raises(ValueError, match="looks ahead"):
        Neighbourhood(8, 16)(X, Context(causal=True))
    build_decoder(ModelSpec(width=8, heads=2, feedforward="neighbourhood(after=0)"), vocabulary=5, length=6)
    build_encoder(spec, vocabulary=5, length=6)


def test_placements() -> None:
    network, norm = FeedForward(8, 16), shake(LayerNorm(8))
    torch.testing.assert_close(PostNorm(network, norm)(X), norm(X + network(X)))
    torch.testing.assert_close(PreNorm(network, norm)(X), X + network(norm(X)))
    rezero = ReZero(network)
    with torch.no_grad():
        rezero.scale.fill_(0.5)
    torch.testing.assert_close(rezero(X), X + 0.5 * network(X))


def test_rezero_starts_as_the_identity_with_a_gradient_that_can_leave_it() -> None:
    encoder = build_encoder(ModelSpec(width=8, heads=2, layers=3, norm="rezero", position="none"), 5, 6)
    x = X.clone().requires_grad_()
    output = encoder.stack(x)
    torch.testing.assert_close(output, x, atol=0, rtol=0)
    output.square().sum().backward()
    scales = [weight for name, weight in encoder.named_parameters() if name.endswith("scale")]
    assert len(scales) == 6
    assert all(scale.grad is not None and scale.grad != 0 for scale in scales)


def test_every_placement_drops_out_what_its_sublayer_adds() -> None:
    for name, placement in PLACEMENTS.items():
        wrapped = part(PLACEMENTS, name, "norm", sublayer=FeedForward(8, 16), norm=LayerNorm(8), dropout=0.5)
        assert type(wrapped) is placement
        shake(wrapped).train()
        assert not torch.equal(wrapped(X), wrapped(X))
        wrapped.eval()
        assert torch.equal(wrapped(X), wrapped(X))


def test_a_block_runs_its_sublayers_in_the_order_given() -> None:
    attention, network = SelfAttention(8, 2), FeedForward(8, 16)
    torch.testing.assert_close(Block(mixer=attention, feedforward=network)(X), network(attention(X)))


def test_one_hot_vectors_times_a_matrix_are_a_lookup() -> None:
    lookup, onehot, tokens = Embedding(5, 8), OneHot(5, 8), torch.randint(5, (3, 6))
    onehot.load_state_dict(lookup.state_dict())
    direction = torch.randn(3, 6, 8)
    outputs = lookup(tokens), onehot(tokens)
    torch.testing.assert_close(*outputs)
    gradients = [
        torch.autograd.grad((output * direction).sum(), module.table.weight)[0]
        for output, module in zip(outputs, (lookup, onehot), strict=True)
    ]
    torch.testing.assert_close(*gradients)


def test_embeddings_start_at_size_one() -> None:
    vectors = Embedding(1000, 64)(torch.arange(1000))
    assert vectors.square().mean().item() == pytest.approx(1, abs=0.02)


def test_a_region_is_a_convolution_over_one_hot_vectors() -> None:
    tokens, there = (
        torch.randint(11, (3, 6)),
        torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False] + [True] * 5]),
    )
    region = Region(11, 4, before=2, after=1, start=1.0)
    own, *beside = region.table.weight.unflatten(0, (4, 11))
    matrices = torch.stack([*beside[:2], own, beside[2]])  # (offset, V, D)
    onehot = torch.nn.functional.one_hot(tokens, 11).float() * there[..., None]
    padded = torch.nn.functional.pad(onehot.mT, (2, 1))
    expected = torch.nn.functional.conv1d(padded, matrices.permute(2, 1, 0), region.bias).mT.relu()
    torch.testing.assert_close(region(tokens, there), expected)


def row_of(ngram: list[int], buckets: int) -> int:
    """From the last token to the first, in whole numbers, with the signs of 64-bit arithmetic."""
    number = ngram[-1]
    for token in reversed(ngram[:-1]):
        number = (number * MULTIPLIER + token + 1 + 2**63) % 2**64 - 2**63
    return (number ^ (number >> 32)) % buckets


def test_ngrams_are_sums_of_the_rows_of_all_that_end_with_a_token() -> None:
    embedding = NGrams(11, 4, longest=3, buckets=50, start=1.0)
    table, tokens = embedding.table.weight, [3, 10, 0, 7, 3]
    dropped = 2
    expected = []
    for end in range(1, len(tokens) + 1):
        ngrams = [list(range(end - size, end)) for size in (1, 2, 3) if size <= end]
        rows = [
            table[tokens[places[0]] if len(places) == 1 else 11 + row_of([tokens[place] for place in places], 50)]
            for places in ngrams
            if dropped not in places
        ]
        expected.append(sum(rows, torch.zeros(4)))
    kept = torch.arange(len(tokens)) != dropped
    torch.testing.assert_close(embedding(torch.tensor([tokens]), kept[None])[0], torch.stack(expected))


def test_ngrams_keep_their_rows_in_another_vocabulary() -> None:
    large, small = NGrams(11, 4, buckets=5), NGrams(9, 4, buckets=5)
    resized = small.resize(large.table.weight, small.table.weight)
    torch.testing.assert_close(resized, torch.cat([large.table.weight[:9], large.table.weight[11:]]))
    extended = small.extend(small.table.weight, [[2, 4], [1]])
    assert extended.shape == large.table.weight.shape
    torch.testing.assert_close(extended[9], small.table.weight[[2, 4]].mean(dim=0))
    torch.testing.assert_close(extended[11:], small.table.weight[9:])


def test_dropped_tokens_are_whole_and_only_in_training() -> None:
    encoder = build_encoder(ModelSpec(layers=0, width=8, position="none", token_dropout=0.3), 11, 100)
    tokens = torch.randint(11, (50, 100))
    states = encoder(tokens)
    gone = (states == 0).all(dim=-1)
    assert gone.float().mean().item() == pytest.approx(0.3, abs=0.03)
    assert ((states != 0).all(dim=-1) | gone).all()
    torch.testing.assert_close(states[~gone], encoder.eval()(tokens)[~gone])


def pooling_of(name: str) -> nn.Module:
    torch.manual_seed(5)
    return part(POOLINGS, name, "model.pooling", width=X.shape[-1])


def additive(states: Tensor) -> Tensor:
    pooling: Any = pooling_of("attention")
    scores = [pooling.score.weight[0] @ torch.tanh(pooling.project.weight @ h + pooling.project.bias) for h in states]
    weights = [score.exp() / sum(each.exp() for each in scores) for score in scores]
    return torch.stack([weight * h for weight, h in zip(weights, states, strict=True)]).sum(dim=0)


def dense_tanh(states: Tensor) -> Tensor:
    pooling: Any = pooling_of("pooler")
    return torch.tanh(pooling.project.weight @ states[0] + pooling.project.bias)


POOLED: dict[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda states: states[0],
    "pooler": dense_tanh,
    "mean": lambda states: states.mean(dim=0),
    "max": lambda states: states.max(dim=0).values,
    "last": lambda states: states[-1],
    "attention": additive,
}


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_and_what_padding_must_not_change(name: str) -> None:
    lengths = torch.tensor([6, 3, 1])
    pooling = pooling_of(name)
    expected = torch.stack([POOLED[name](X[row, :length]) for row, length in enumerate(lengths)])
    real = real_tokens(lengths, 6)
    for rubbish in (-1e4, 0.0, 1e4):
        states = X.masked_fill(~real[..., None], rubbish)
        torch.testing.assert_close(pooling(states, real), expected)
    torch.testing.assert_close(pooling(X, None), pooling(X, torch.ones(3, 6, dtype=torch.bool)))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1000, 101), (7,), ()])
def test_dropout(probability: float, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, requires_grad=True)
    dropped = drop(x, probability, training=True)
    assert dropped.shape == shape
    scale = 1 / (1 - probability)
    values = dropped.detach().flatten()
    assert ((values == 0) | ((values - scale).abs() < 1e-3 * scale)).all()
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach())
    if x.numel() > 1000:
        kept = (values > 0).float().mean().item()
        assert kept == pytest.approx(1 - probability, abs=0.01)
        assert dropped.mean().item() == pytest.approx(1, abs=0.03)


def test_dropout_draws_elements_apart_from_each_other() -> None:
    """Four elements share a random number: they must not share their fate."""
    kept = (drop(torch.ones(100_000, 4), 0.5, training=True) > 0).double()
    torch.testing.assert_close(torch.corrcoef(kept.T), torch.eye(4, dtype=torch.float64), atol=0.02, rtol=0)


def test_dropout_follows_the_seed_and_stops_in_evaluation() -> None:
    torch.manual_seed(3)
    first = drop(X, 0.5, training=True)
    torch.manual_seed(3)
    assert torch.equal(drop(X, 0.5, training=True), first)
    assert torch.equal(drop(X, 0.5, training=False), X)


@pytest.mark.parametrize("name", [name for name in FEEDFORWARDS if name != "none"])
def test_feedforward_dropout_is_on_the_hidden_numbers(name: str) -> None:
    network: nn.Module = part(FEEDFORWARDS, f"{name}(dropout=0.5)", "feedforward", width=8, hidden=16)
    assert not torch.equal(network(X), network(X))
    assert torch.equal(network.eval()(X), network(X))


@pytest.mark.parametrize("name", POOLINGS)
def test_a_row_without_tokens_is_pooled_to_zeros_and_padding_never_leaks(name: str) -> None:
    if POOLINGS[name].reads_first:
        return  # its token is always there
    states = X.clone()
    real = torch.zeros(3, 6, dtype=torch.bool)
    real[0, :4] = True
    states[~real] = math.nan
    pooled = pooling_of(name)(states, real)
    assert pooled[0].isfinite().all()
    assert pooled[1:].abs().max() == 0


def test_a_dropout_that_is_no_probability_is_refused() -> None:
    for bad in (-0.5, 1.0, 2.0):
        with pytest.raises(Problem, match="is not a probability: it must be at least 0 and below 1"):
            drop(X, bad, training=True)


@pytest.mark.parametrize("probability", [1e-9, 0.999999])
def test_a_rate_of_dropout_beside_0_or_1_divides_by_no_zero(probability: float) -> None:
    assert drop(torch.ones(1000), probability, training=True).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_adapters_by_hand_and_merged(dtype: torch.dtype) -> None:
    """W x + (16 / rank) B A x, and its gradients, in the matrix's own precision."""
    network = add_lora(nn.Sequential(nn.Linear(5, 3).to(dtype)), rank=4)
    adapter: Any = network[0]
    nn.init.normal_(adapter.up)
    x = torch.randn(6, 5, dtype=dtype)
    network(x).sum().backward()
    weight, down, up = (each.detach().double().numpy() for each in (adapter.weight, adapter.down, adapter.up))
    expected = x.double().numpy() @ (weight + 4 * up @ down).T + adapter.bias.detach().double().numpy()
    close: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10} if dtype is torch.float64 else {"rtol": 0.05, "atol": 0.3}
    for outputs in (network(x), merge_lora(network)(x)):
        assert outputs.dtype is dtype
        np.testing.assert_allclose(outputs.detach().double().numpy(), expected, **close)
    ones = np.ones((6, 3))
    np.testing.assert_allclose(adapter.up.grad.double(), 4 * ones.T @ (x.double().numpy() @ down.T), **close)
    assert adapter.weight.grad is None
