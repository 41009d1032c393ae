"""T5 (Raffel et al. 2020, https://arxiv.org/abs/1910.10683).

It does not divide attention scores by sqrt(d), and its first version scales the last hidden states: our query weights
and the last norm make up for that.
"""

import math
from typing import Any

from headway.config.errors import Problem
from headway.config.recipe import ModelSpec
from headway.interop.families.rules import (
    Config,
    Family,
    Rule,
    option,
    require,
    same,
    stacked,
    translator,
)


def spec(config: Config) -> ModelSpec:
    require(config, d_kv=config["d_model"] // config["num_heads"])
    buckets = config.get("relative_attention_num_buckets", 32), config.get("relative_attention_max_distance", 128)
    where = f"buckets={buckets[0]}, furthest={buckets[1]}"
    kind = config.get("feed_forward_proj", "relu")
    if kind not in ("relu", "gated-gelu"):
        raise Problem(f"a model with feed_forward_proj={kind!r} has no counterpart here: relu and gated-gelu have")
    return ModelSpec(
        layers=config.get("num_decoder_layers") or config["num_layers"],
        encoder_layers=config["num_layers"],
        width=config["d_model"],
        heads=config["num_heads"],
        hidden=config["d_ff"],
        embedding="lookup(scale=1.0)",
        position=f"t5({where}, both=False)",
        encoder_position=f"t5({where})",
        feedforward="relu" if kind == "relu" else "geglu",
        norm="pre",
        norm_kind=f"rmsnorm(eps={config.get('layer_norm_epsilon', 1e-6)})",
        bias=False,
        head="tied" if is_scaled(config) else "own",
    )


def is_scaled(config: Config) -> bool:
    """Whether the last hidden states are scaled and the head is tied, as in the first version."""
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))


def rules(config: Config) -> list[Rule]:
    width, gated = config["d_model"], config.get("feed_forward_proj", "relu") == "gated-gelu"
    root = math.sqrt(width // config["num_heads"])
    rules = [Rule("encoder.embedding.table.weight", ("shared.weight",))]
    layers = {"encoder": config["num_layers"], "decoder": config.get("num_decoder_layers") or config["num_layers"]}
    for side, count in layers.items():
        scale = (width**-0.5,) if side == "decoder" and is_scaled(config) else ()
        rules += same(f"{side}.stack.norm", f"{side}.final_layer_norm", "weight", scales=scale)
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rules.append(Rule(f"{side}.stack.position.table.weight", (table,)))
        for number in range(count):
            ours, theirs = f"{side}.stack.blocks.{number}", f"{side}.block.{number}.layer"
            heads = [f"{theirs}.0.SelfAttention.{name}" for name in "qkv"]
            rules += stacked(f"{ours}.mixer.sublayer.project", heads, [width] * 3, "weight", scales=(root, 1.0, 1.0))
            last = 2 if side == "decoder" else 1
            names = {
                "mixer.sublayer.output": "0.SelfAttention.o",
                "mixer.norm": "0.layer_norm",
                "feedforward.sublayer.outer": f"{last}.DenseReluDense.wo",
                "feedforward.norm": f"{last}.layer_norm",
            }
            if side == "decoder":
                crossing = {"key": "k", "value": "v", "output": "o"}
                names |= {f"cross.sublayer.{own}": f"1.EncDecAttention.{other}" for own, other in crossing.items()}
                names["cross.norm"] = "1.layer_norm"
                query = f"{theirs}.1.EncDecAttention.q"
                rules += same(f"{ours}.cross.sublayer.query", query, "weight", scales=(root,))
            inner = f"{theirs}.{last}.DenseReluDense"
            if gated:
                both = [f"{inner}.wi_0", f"{inner}.wi_1"]
                rules += stacked(f"{ours}.feedforward.sublayer.inner", both, [config["d_ff"]] * 2, "weight")
            else:
                names["feedforward.sublayer.inner"] = f"{last}.DenseReluDense.wi"
            for own, other in names.items():
                rules += same(f"{ours}.{own}", f"{theirs}.{other}", "weight")
    return rules + ([] if is_scaled(config) else same("decoder.head", "lm_head", "weight"))


def config(spec: ModelSpec, vocabulary: int, length: int) -> dict[str, Any]:
    tied = spec.head != "own"
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": vocabulary,
        "n_positions": length,
        "num_decoder_layers": spec.layers,
        "num_layers": spec.layers if spec.encoder_layers is None else spec.encoder_layers,
        "d_model": spec.width,
        "d_kv": spec.width // spec.heads,
        "num_heads": spec.heads,
        "d_ff": spec.hidden or 4 * spec.width,
        "relative_attention_num_buckets": option(spec.position, "buckets", 32),
        "relative_attention_max_distance": option(spec.position, "furthest", 128),
        "feed_forward_proj": "gated-gelu" if spec.feedforward == "geglu" else "relu",
        "layer_norm_epsilon": option(spec.norm_kind, "eps", 1e-6),
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": tied,
        "is_encoder_decoder": True,
    }


T5 = Family(spec, config, rules, translator, lambda config: config.get("n_positions", 512))
