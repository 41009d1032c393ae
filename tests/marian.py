"""The same network in transformers' Marian shape, with the same weights.

What Marian has otherwise, and how it is made the same: its table of sinusoids has all sines before all cosines (the
table is replaced), keys and values of a block are three matrices in place of one (ours is cut), its scores have a bias
(zero), it begins with the padding token and never writes it (given by its settings).
"""

from typing import Any

import torch

from headway.models import EncoderDecoder, ModelSpec

SHAPE: dict[str, Any] = {"position": "sinusoidal", "feedforward": "relu", "norm": "post"}


def as_marian(model: EncoderDecoder, spec: ModelSpec, vocabulary: int, length: int, begin: int, end: int) -> Any:
    from transformers import MarianConfig, MarianMTModel

    hidden = spec.hidden or 4 * spec.width
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=spec.width,
        encoder_layers=spec.layers,
        decoder_layers=spec.layers,
        encoder_attention_heads=spec.heads,
        decoder_attention_heads=spec.heads,
        encoder_ffn_dim=hidden,
        decoder_ffn_dim=hidden,
        max_position_embeddings=length,
        activation_function="relu",
        dropout=spec.dropout,
        attention_dropout=0.0,
        scale_embedding=True,
        pad_token_id=begin,
        eos_token_id=end,
        bos_token_id=begin,
        decoder_start_token_id=begin,
        forced_eos_token_id=None,
    )
    theirs: Any = MarianMTModel(config).eval()
    ours: Any = model
    with torch.no_grad():
        theirs.model.shared.weight.copy_(ours.decoder.embedding.table.weight)
        waves = ours.decoder.stack.position.embed(torch.zeros(1, length, spec.width), torch.arange(length))[0]
        for side in ("encoder", "decoder"):
            part, own = getattr(theirs.model, side), getattr(ours, side).stack
            part.embed_positions.weight.copy_(waves)
            for layer, block in zip(part.layers, own.blocks, strict=True):
                copy_block(layer, block)
    return theirs


def copy_block(layer: Any, block: Any) -> None:
    mixer = block["mixer"]
    query, key, value = mixer.sublayer.project.weight.chunk(3)
    query_bias, key_bias, value_bias = mixer.sublayer.project.bias.chunk(3)
    attention = layer.self_attn
    for linear, weight, bias in (
        (attention.q_proj, query, query_bias),
        (attention.k_proj, key, key_bias),
        (attention.v_proj, value, value_bias),
        (attention.out_proj, mixer.sublayer.output.weight, mixer.sublayer.output.bias),
    ):
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    layer.self_attn_layer_norm.load_state_dict(mixer.norm.state_dict())
    if "cross" in block:
        cross, theirs = block["cross"].sublayer, layer.encoder_attn
        for name, linear in {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}.items():
            getattr(theirs, linear).load_state_dict(getattr(cross, name).state_dict())
        layer.encoder_attn_layer_norm.load_state_dict(block["cross"].norm.state_dict())
    first, last = (part for part in block["feedforward"].sublayer.modules() if isinstance(part, torch.nn.Linear))
    layer.fc1.load_state_dict(first.state_dict())
    layer.fc2.load_state_dict(last.state_dict())
    layer.final_layer_norm.load_state_dict(block["feedforward"].norm.state_dict())
