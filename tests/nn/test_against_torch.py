"""With copied weights, the parts compute what torch.nn computes: outputs and gradients, to 1e-5 in float32."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.models import Stack
from headway.nn import Block, Context, CrossAttention, FeedForward, LayerNorm, PostNorm, PreNorm, SelfAttention
from headway.nn.masks import over_keys, real_tokens

WIDTH, HEADS, HIDDEN = 32, 4, 64
LENGTHS = torch.tensor([7, 3, 5])
REAL = real_tokens(LENGTHS, 7)


def copy(target: Tensor, source: Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)


def copy_linear(target: nn.Linear, source: nn.Linear) -> None:
    copy(target.weight, source.weight)
    copy(target.bias, source.bias)


def copy_norm(target: nn.LayerNorm, source: nn.LayerNorm) -> None:
    with torch.no_grad():
        source.weight.add_(0.1 * torch.randn_like(source.weight))
        source.bias.add_(0.1 * torch.randn_like(source.bias))
    copy(target.weight, source.weight)
    copy(target.bias, source.bias)


def copy_self(target: SelfAttention, source: nn.MultiheadAttention) -> None:
    copy(target.project.weight, source.in_proj_weight)
    copy(target.project.bias, source.in_proj_bias)
    copy_linear(target.output, source.out_proj)


def copy_cross(target: CrossAttention, source: nn.MultiheadAttention) -> None:
    if source.in_proj_weight is not None:
        weights = source.in_proj_weight.chunk(3)
    else:
        weights = (source.q_proj_weight, source.k_proj_weight, source.v_proj_weight)
    linears = (target.query, target.key, target.value)
    for linear, weight, bias in zip(linears, weights, source.in_proj_bias.chunk(3), strict=True):
        copy(linear.weight, weight)
        copy(linear.bias, bias)
    copy_linear(target.output, source.out_proj)


def copy_block(block: Any, layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> None:
    copy_self(block["mixer"].sublayer, layer.self_attn)
    norms = [block["mixer"].norm]
    if isinstance(layer, nn.TransformerDecoderLayer):
        copy_cross(block["cross"].sublayer, layer.multihead_attn)
        norms.append(block["cross"].norm)
    copy_linear(block["feedforward"].sublayer.inner, layer.linear1)
    copy_linear(block["feedforward"].sublayer.outer, layer.linear2)
    norms.append(block["feedforward"].norm)
    for number, norm in enumerate(norms, start=1):
        copy_norm(norm, getattr(layer, f"norm{number}"))


def our_block(norm_first: bool, activation: str, cross: bool = False) -> Block:
    placement = PreNorm if norm_first else PostNorm
    sublayers: dict[str, nn.Module] = {"mixer": SelfAttention(WIDTH, HEADS)}
    if cross:
        sublayers["cross"] = CrossAttention(WIDTH, HEADS)
    sublayers["feedforward"] = FeedForward(WIDTH, HIDDEN, getattr(nn.functional, activation))
    return Block(**{name: placement(sublayer, LayerNorm(WIDTH)) for name, sublayer in sublayers.items()})


def assert_same(ours: Tensor, theirs: Tensor, *inputs: Tensor) -> None:
    """The same outputs, and the same gradients with respect to the inputs."""
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    direction = torch.randn_like(ours)
    for mine, other in zip(
        torch.autograd.grad((ours * direction).sum(), inputs, retain_graph=True),
        torch.autograd.grad((theirs * direction).sum(), inputs, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


def assert_same_weight_gradients(ours: Tensor, theirs: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> None:
    direction = torch.randn_like(ours)
    mine = torch.autograd.grad((ours * direction).sum(), [pair[0] for pair in pairs])
    others = torch.autograd.grad((theirs * direction).sum(), [pair[1] for pair in pairs])
    for one, other in zip(mine, others, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def sequence(time: int = 7, width: int = WIDTH) -> Tensor:
    return torch.randn(3, time, width, requires_grad=True)


@pytest.mark.parametrize(("padded", "causal"), list(product([False, True], repeat=2)))
def test_self_attention(padded: bool, causal: bool) -> None:
    theirs, ours, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), SelfAttention(WIDTH, HEADS), sequence()
    nn.init.normal_(theirs.in_proj_bias)
    copy_self(ours, theirs)
    square = nn.Transformer.generate_square_subsequent_mask(7).isinf() if causal else None
    expected, _ = theirs(x, x, x, key_padding_mask=~REAL if padded else None, attn_mask=square)
    output = ours(x, Context(mask=over_keys(REAL) if padded else None, causal=causal))
    assert_same(output, expected, x)
    pairs = [(ours.project.weight, theirs.in_proj_weight), (ours.output.weight, theirs.out_proj.weight)]
    assert_same_weight_gradients(output, expected, pairs)


def test_cross_attention_with_three_widths() -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, kdim=20, vdim=12)
    ours = CrossAttention(WIDTH, HEADS, key_width=20, value_width=12)
    nn.init.normal_(theirs.in_proj_bias)
    copy_cross(ours, theirs)
    query, key, value = sequence(5), sequence(7, 20), sequence(7, 12)
    expected, _ = theirs(query, key, value, key_padding_mask=~REAL)
    assert_same(ours(query, Context(memory_mask=over_keys(REAL)), key, value), expected, query, key, value)


@pytest.mark.parametrize(("norm_first", "activation"), list(product([False, True], ["relu", "gelu"])))
def test_encoder_layer(norm_first: bool, activation: str) -> None:
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm_first)
    ours: Any = our_block(norm_first, activation)
    x = sequence()
    copy_block(ours, theirs)
    output, expected = ours(x, Context(mask=over_keys(REAL))), theirs(x, src_key_padding_mask=~REAL)
    assert_same(output[REAL], expected[REAL], x)
    pairs = [
        (ours["mixer"].sublayer.project.weight, theirs.self_attn.in_proj_weight),
        (ours["feedforward"].sublayer.inner.weight, theirs.linear1.weight),
        (ours["feedforward"].norm.weight, theirs.norm2.weight),
    ]
    assert_same_weight_gradients(output[REAL], expected[REAL], pairs)


@pytest.mark.parametrize(("norm_first", "activation"), list(product([False, True], ["relu", "gelu"])))
def test_decoder_layer(norm_first: bool, activation: str) -> None:
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm_first)
    ours, x, memory = our_block(norm_first, activation, cross=True), sequence(6), sequence()
    copy_block(ours, theirs)
    square = nn.Transformer.generate_square_subsequent_mask(6)
    expected = theirs(x, memory, tgt_mask=square, memory_key_padding_mask=~REAL)
    output = ours(x, Context(causal=True, memory=memory, memory_mask=over_keys(REAL)))
    assert_same(output, expected, x, memory)


@pytest.mark.parametrize(("norm_first", "activation"), list(product([False, True], ["relu", "gelu"])))
def test_whole_transformer(norm_first: bool, activation: str) -> None:
    theirs = nn.Transformer(WIDTH, HEADS, 2, 2, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm_first)
    encoder = Stack([our_block(norm_first, activation) for _ in range(2)], norm=LayerNorm(WIDTH))
    decoder = Stack([our_block(norm_first, activation, cross=True) for _ in range(2)], norm=LayerNorm(WIDTH))
    pairs: list[tuple[Any, Any]] = [(encoder, theirs.encoder), (decoder, theirs.decoder)]
    for ours, other in pairs:
        for block, layer in zip(ours.blocks, other.layers, strict=True):
            copy_block(block, layer)
        copy_norm(ours.norm, other.norm)
    source, target = sequence(), sequence(6)
    expected = theirs(
        source,
        target,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(6),
        src_key_padding_mask=~REAL,
        memory_key_padding_mask=~REAL,
    )
    memory = encoder(source, Context(real=REAL, mask=over_keys(REAL)))
    output = decoder(target, Context(causal=True, memory=memory, memory_mask=over_keys(REAL)))
    assert_same(output, expected, source, target)
