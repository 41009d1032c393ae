"""Marian (Junczys-Dowmunt et al. 2018, https://arxiv.org/abs/1804.00344), the shape of many translators."""

from typing import Any

from headway.config.recipe import ModelSpec
from headway.interop.families.rules import (
    Config,
    Family,
    Rule,
    activation,
    name_of_activation,
    option,
    require,
    same,
    stacked,
    translator,
)


def spec(config: Config) -> ModelSpec:
    shape = {"attention_heads": "heads", "ffn_dim": "hidden"}
    require(config, normalize_before=False, share_encoder_decoder_embeddings=True)
    require(config, **{f"encoder_{key}": config[f"decoder_{key}"] for key in shape})
    return ModelSpec(
        layers=config["decoder_layers"],
        encoder_layers=config["encoder_layers"],
        width=config["d_model"],
        heads=config["decoder_attention_heads"],
        hidden=config["decoder_ffn_dim"],
        embedding="lookup" if config.get("scale_embedding", False) else "lookup(scale=1.0)",
        position="sinusoidal(halves=True)",
        feedforward=activation(config.get("activation_function", "gelu")),
        norm="post",
        head="tied(bias=True)",
    )


def rules(config: Config) -> list[Rule]:
    width = config["d_model"]
    rules = [
        Rule("encoder.embedding.table.weight", ("model.shared.weight",)),
        Rule("decoder.head.bias", ("final_logits_bias",), flat=True),
    ]
    for side in ("encoder", "decoder"):
        for number in range(config[f"{side}_layers"]):
            ours, theirs = f"{side}.stack.blocks.{number}", f"model.{side}.layers.{number}"
            heads = [f"{theirs}.self_attn.{name}_proj" for name in "qkv"]
            rules += stacked(f"{ours}.mixer.sublayer.project", heads, [width] * 3)
            names = {
                "mixer.sublayer.output": "self_attn.out_proj",
                "mixer.norm": "self_attn_layer_norm",
                "feedforward.sublayer.inner": "fc1",
                "feedforward.sublayer.outer": "fc2",
                "feedforward.norm": "final_layer_norm",
            }
            if side == "decoder":
                crossing = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
                names |= {f"cross.sublayer.{own}": f"encoder_attn.{other}" for own, other in crossing.items()}
                names["cross.norm"] = "encoder_attn_layer_norm"
            for own, other in names.items():
                rules += same(f"{ours}.{own}", f"{theirs}.{other}")
    return rules


def config(spec: ModelSpec, vocabulary: int, length: int) -> dict[str, Any]:
    sizes = {"attention_heads": spec.heads, "ffn_dim": spec.hidden or 4 * spec.width}
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": vocabulary,
        "max_position_embeddings": length,
        "decoder_layers": spec.layers,
        "encoder_layers": spec.layers if spec.encoder_layers is None else spec.encoder_layers,
        "d_model": spec.width,
        **{f"{side}_{key}": size for side in ("encoder", "decoder") for key, size in sizes.items()},
        "scale_embedding": option(spec.embedding, "scale", None) is None,
        "activation_function": name_of_activation(spec.feedforward),
        "is_encoder_decoder": True,
    }


MARIAN = Family(spec, config, rules, translator, lambda config: config.get("max_position_embeddings", 512))
