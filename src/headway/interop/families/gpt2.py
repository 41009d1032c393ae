"""GPT-2 (Radford et al. 2019, https://openai.com/index/better-language-models). Its matrices are transposed."""

from typing import Any

from headway.config.recipe import ModelSpec
from headway.interop.families.rules import Config, Family, Rule, activation, name_of_activation, option, require, same
from headway.models.build import build_decoder


def spec(config: Config) -> ModelSpec:
    require(config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    return ModelSpec(
        layers=config["n_layer"],
        width=config["n_embd"],
        heads=config["n_head"],
        hidden=config.get("n_inner") or 4 * config["n_embd"],
        embedding="lookup(scale=1.0)",
        position="learned",
        feedforward=activation(config.get("activation_function", "gelu_new")),
        norm="pre",
        norm_kind=f"layernorm(eps={config.get('layer_norm_epsilon', 1e-5)})",
        head="tied" if config.get("tie_word_embeddings", True) else "own",
    )


def rules(config: Config) -> list[Rule]:
    rules = [
        Rule("embedding.table.weight", ("transformer.wte.weight",)),
        Rule("stack.position.table.weight", ("transformer.wpe.weight",)),
        *same("stack.norm", "transformer.ln_f"),
    ]
    for number in range(config["n_layer"]):
        ours, theirs = f"stack.blocks.{number}", f"transformer.h.{number}"
        rules += same(f"{ours}.mixer.norm", f"{theirs}.ln_1") + same(f"{ours}.feedforward.norm", f"{theirs}.ln_2")
        for own, other in {
            "mixer.sublayer.project": "attn.c_attn",
            "mixer.sublayer.output": "attn.c_proj",
            "feedforward.sublayer.inner": "mlp.c_fc",
            "feedforward.sublayer.outer": "mlp.c_proj",
        }.items():
            rules += same(f"{ours}.{own}", f"{theirs}.{other}", "weight", transposed=True)
            rules += same(f"{ours}.{own}", f"{theirs}.{other}", "bias")
    return rules + ([] if config.get("tie_word_embeddings", True) else same("head", "lm_head", "weight"))


def config(spec: ModelSpec, vocabulary: int, length: int) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": vocabulary,
        "n_positions": length,
        "n_layer": spec.layers,
        "n_embd": spec.width,
        "n_head": spec.heads,
        "n_inner": spec.hidden,
        "activation_function": name_of_activation(spec.feedforward),
        "layer_norm_epsilon": option(spec.norm_kind, "eps", 1e-5),
        "tie_word_embeddings": spec.head != "own",
    }


GPT2 = Family(spec, config, rules, build_decoder, lambda config: config["n_positions"])
