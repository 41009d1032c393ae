"""BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805) and RoBERTa (Liu et al. 2019, https://arxiv.org/abs/1907.11692).

Both add an embedding of the segment; that of the first segment is added to our positions, others are dropped.
"""

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
)
from headway.models.build import build_masked


def spec(config: Config) -> ModelSpec:
    require(config, position_embedding_type="absolute", is_decoder=False)
    eps = config.get("layer_norm_eps", 1e-12)
    return ModelSpec(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        hidden=config["intermediate_size"],
        embedding="lookup(scale=1.0)",
        position="learned",
        feedforward=activation(config.get("hidden_act", "gelu")),
        norm="post",
        norm_kind=f"layernorm(eps={eps})",
        embedding_norm=True,
        head=f"transformed(eps={eps}, activation={head_activation(config)!r})",
    )


def rules(config: Config) -> list[Rule]:
    roberta, width = config["model_type"] == "roberta", config["hidden_size"]
    body = config["model_type"]
    table, kinds = f"{body}.embeddings.position_embeddings.weight", f"{body}.embeddings.token_type_embeddings.weight"
    rules = [
        Rule("encoder.embedding.table.weight", (f"{body}.embeddings.word_embeddings.weight",)),
        Rule(
            "encoder.stack.position.table.weight",
            (table,),
            skipped=skipped_rows(config),
            plus=kinds,
        ),
        *same("encoder.stack.first_norm", f"{body}.embeddings.LayerNorm"),
    ]
    head = (
        {"inner": "dense", "norm": "layer_norm"}
        if roberta
        else {"inner": "transform.dense", "norm": "transform.LayerNorm"}
    )
    above = "lm_head" if roberta else "cls.predictions"
    for own, other in head.items():
        rules += same(f"head.{own}", f"{above}.{other}")
    rules += same("head.tied", above, "bias")
    for number in range(config["num_hidden_layers"]):
        ours, theirs = f"encoder.stack.blocks.{number}", f"{body}.encoder.layer.{number}"
        heads = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
        rules += stacked(f"{ours}.mixer.sublayer.project", heads, [width] * 3)
        for own, other in {
            "mixer.sublayer.output": "attention.output.dense",
            "mixer.norm": "attention.output.LayerNorm",
            "feedforward.sublayer.inner": "intermediate.dense",
            "feedforward.sublayer.outer": "output.dense",
            "feedforward.norm": "output.LayerNorm",
        }.items():
            rules += same(f"{ours}.{own}", f"{theirs}.{other}")
    return rules


def head_activation(config: Config) -> str:
    """BERT's head has the activation of its blocks."""
    name = str(config.get("hidden_act", "gelu"))
    return "gelu" if config["model_type"] == "roberta" else {"swish": "silu"}.get(name, name)


def skipped_rows(config: Config) -> int:
    """RoBERTa's positions start after the index of its padding token."""
    padding = config.get("pad_token_id")
    return 0 if config["model_type"] == "bert" else 2 if padding is None else padding + 1


def length(config: Config) -> int:
    return config["max_position_embeddings"] - skipped_rows(config)


def config(spec: ModelSpec, vocabulary: int, length: int) -> dict[str, Any]:
    return {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "vocab_size": vocabulary,
        "max_position_embeddings": length,
        "num_hidden_layers": spec.layers,
        "hidden_size": spec.width,
        "num_attention_heads": spec.heads,
        "intermediate_size": spec.hidden or 4 * spec.width,
        "hidden_act": name_of_activation(spec.feedforward),
        "layer_norm_eps": option(spec.norm_kind, "eps", 1e-5),
        "type_vocab_size": 2,
    }


BERT = Family(spec, config, rules, build_masked, length)
