"""Llama (Touvron et al. 2023, https://arxiv.org/abs/2302.13971) and its descendants of the same shape."""

from typing import Any

from headway.config.recipe import ModelSpec
from headway.interop.families.rules import Config, Family, Rule, option, require, same, stacked
from headway.models.build import build_decoder


def spec(config: Config) -> ModelSpec:
    biased = config.get("attention_bias", False)
    require(config, hidden_act="silu", mlp_bias=biased, rope_scaling=None)
    rope = config.get("rope_parameters") or {}
    require(rope, rope_type="default")
    require(config, head_dim=config["hidden_size"] // config["num_attention_heads"])
    return ModelSpec(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        kv_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
        hidden=config["intermediate_size"],
        embedding="lookup(scale=1.0)",
        position=f"rotary(base={rope.get('rope_theta') or config.get('rope_theta') or 10_000.0})",
        feedforward="swiglu",
        norm="pre",
        norm_kind=f"rmsnorm(eps={config.get('rms_norm_eps', 1e-6)})",
        bias=biased,
        head="tied" if config.get("tie_word_embeddings", False) else "own",
    )


def rules(config: Config) -> list[Rule]:
    kinds = ("weight", "bias") if config.get("attention_bias", False) else ("weight",)
    width, hidden = config["hidden_size"], config["intermediate_size"]
    keys = width // config["num_attention_heads"] * (config.get("num_key_value_heads") or config["num_attention_heads"])
    rules = [
        Rule("embedding.table.weight", ("model.embed_tokens.weight",)),
        *same("stack.norm", "model.norm", "weight"),
    ]
    for number in range(config["num_hidden_layers"]):
        ours, theirs = f"stack.blocks.{number}", f"model.layers.{number}"
        heads = [f"{theirs}.self_attn.{name}_proj" for name in "qkv"]
        inner = [f"{theirs}.mlp.{name}_proj" for name in ("gate", "up")]
        rules += stacked(f"{ours}.mixer.sublayer.project", heads, [width, keys, keys], *kinds)
        rules += stacked(f"{ours}.feedforward.sublayer.inner", inner, [hidden, hidden], *kinds)
        rules += same(f"{ours}.mixer.sublayer.output", f"{theirs}.self_attn.o_proj", *kinds)
        rules += same(f"{ours}.feedforward.sublayer.outer", f"{theirs}.mlp.down_proj", *kinds)
        rules += same(f"{ours}.mixer.norm", f"{theirs}.input_layernorm", "weight")
        rules += same(f"{ours}.feedforward.norm", f"{theirs}.post_attention_layernorm", "weight")
    return rules + ([] if config.get("tie_word_embeddings", False) else same("head", "lm_head", "weight"))


def config(spec: ModelSpec, vocabulary: int, length: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocabulary,
        "max_position_embeddings": length,
        "num_hidden_layers": spec.layers,
        "hidden_size": spec.width,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads or spec.heads,
        "intermediate_size": spec.hidden or 4 * spec.width,
        "rope_theta": option(spec.position, "base", 10_000.0),
        "rms_norm_eps": option(spec.norm_kind, "eps", 1e-6),
        "attention_bias": spec.bias,
        "mlp_bias": spec.bias,
        "hidden_act": "silu",
        "tie_word_embeddings": spec.head != "own",
    }


LLAMA = Family(spec, config, rules, build_decoder, lambda config: config.get("max_position_embeddings", 2048))
