"""Export a language model to GGUF (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), the one file with model
and tokenizer that llama.cpp and what stands on it run. It has to be shaped like a GPT-2 or a Llama, and to read bytes.

The file is read back by the transformers library, which knows the format on its own.
"""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.config.imports import library
from headway.interop.exportable import Exportable, Proof
from headway.interop.folding import variants
from headway.interop.programs import refuse_different, relative_difference
from headway.interop.to_transformers import Chosen, choose_family
from headway.interop.weights import export_weights
from headway.models import Decoder

FILE = "model.gguf"
BLOCK = 32  # numbers that share a scale in int8
NAMES: dict[str, dict[str, str]] = {  # of tensors: theirs by those of the transformers library, without layers
    "gpt2": {
        "transformer.wte": "token_embd",
        "transformer.wpe": "position_embd",
        "transformer.ln_f": "output_norm",
        "lm_head": "output",
        "ln_1": "attn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    },
    "llama": {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    },
}
LAYERS = {"gpt2": "transformer.h.", "llama": "model.layers."}
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")  # in a GPT-2


def write_gguf(source: Exportable, folder: Path, int8: bool = False) -> tuple[str, Proof]:
    gguf = library("gguf", "gguf")
    if source.generator is None or type(source.model) is not Decoder:
        raise Problem(f"{source.run.folder}: GGUF is for language models: export it to onnx or transformers")
    model: Any = source.model
    length = int(model.stack.position.length or source.length)
    networks = list(variants(source.run.recipe.model, source.model, length, lambda model: model))
    vocabulary = int(model.embedding.vocabulary)
    families: dict[str, Callable[[Chosen], list[str]]] = {"gpt2": misfits_of_gpt2, "llama": misfits_of_llama}
    misfits = misfits_of_tokenizer(source)
    chosen = choose_family(networks, tuple(families), vocabulary, length, misfits)
    if own := families[chosen.family](chosen):
        raise Problem(f"a {chosen.family} in GGUF needs {', '.join([*own, *misfits])}")
    writer = gguf.GGUFWriter(folder / FILE, chosen.family)
    write_shape(writer, source, chosen)
    write_tokenizer(writer, gguf, source)
    for name, tensor in export_weights(chosen.config, chosen.network.model).items():
        add_tensor(writer, gguf, chosen, name, tensor, int8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return f"{chosen.family} in GGUF", prove(source, chosen, folder, not int8)


def misfits_of_gpt2(chosen: Chosen) -> list[str]:
    gelu = chosen.config["activation_function"] == "gelu_new"
    return [] if gelu else ["model.feedforward='gelu(tanh=True)', the only activation that its readers know"]


def misfits_of_llama(chosen: Chosen) -> list[str]:
    return ["model.bias=false"] if chosen.config["attention_bias"] else []


def misfits_of_tokenizer(source: Exportable) -> list[str]:
    """Its readers split texts as GPT-2 does, before the merges."""
    content = json.loads(source.framing.tokenizer.core.to_str())
    splits = content["pre_tokenizer"] or {}
    in_bytes = splits.get("type") == "ByteLevel" and not splits.get("add_prefix_space")
    split = splits.get("use_regex", True) or not content["model"].get("merges")
    if content["model"]["type"] != "BPE" or not in_bytes or not split:
        return ["data.tokenizer=bpe or byte"]
    steps = (content["normalizer"] or {}).get("normalizers", content["normalizer"])
    return ["data.normalize=''"] if steps else []


def write_shape(writer: Any, source: Exportable, chosen: Chosen) -> None:
    spec, config = chosen.network.spec, chosen.config
    writer.add_name(source.run.recipe.name)
    writer.add_context_length(config.get("n_positions") or config["max_position_embeddings"])
    writer.add_embedding_length(spec.width)
    writer.add_block_count(spec.layers)
    writer.add_feed_forward_length(spec.hidden or 4 * spec.width)
    writer.add_head_count(spec.heads)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(0)
    if chosen.family == "gpt2":
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
        return
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(spec.width // spec.heads)
    writer.add_rope_freq_base(config["rope_theta"])


def write_tokenizer(writer: Any, gguf: Any, source: Exportable) -> None:
    generator, framing = source.generator, source.framing
    assert generator is not None
    tokenizer = framing.tokenizer
    symbols, index = tokenizer.vocabulary.symbols, tokenizer.vocabulary.index
    kinds = [gguf.TokenType.CONTROL if special else gguf.TokenType.NORMAL for special in tokenizer.is_special]
    merges = json.loads(tokenizer.core.to_str())["model"].get("merges") or []
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(symbols)
    writer.add_token_types(kinds)
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    writer.add_add_bos_token(bool(framing.first))
    if generator.bos is not None:
        writer.add_bos_token_id(generator.bos)
    if generator.eos is not None:
        writer.add_eos_token_id(generator.eos)
    for symbol, add in {"<unk>": writer.add_unk_token_id, "<pad>": writer.add_pad_token_id}.items():
        if symbol in index:
            add(index[symbol])


def add_tensor(writer: Any, gguf: Any, chosen: Chosen, name: str, tensor: Tensor, int8: bool) -> None:
    family, config = chosen.family, chosen.config
    prefix, (base, _, kind) = LAYERS[family], name.rpartition(".")
    number = ""
    if base.startswith(prefix):
        number, _, base = base.removeprefix(prefix).partition(".")
    own = f"{NAMES[family][base]}.{kind}"
    values = tensor.T if family == "gpt2" and name.endswith(TRANSPOSED) else tensor
    if base in ("self_attn.q_proj", "self_attn.k_proj"):
        heads = config["num_attention_heads" if base.endswith("q_proj") else "num_key_value_heads"]
        values = values.reshape(heads, 2, -1, *values.shape[1:]).transpose(1, 2).reshape(values.shape)
    array = np.ascontiguousarray(values.detach().float().numpy())
    own = f"blk.{number}.{own}" if number else own
    is_matrix = array.ndim == 2 and array.shape[1] % BLOCK == 0 and "position" not in own
    if int8 and is_matrix:
        kind8 = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(own, gguf.quants.quantize(array, kind8), raw_dtype=kind8)
    else:
        writer.add_tensor(own, array)


@torch.inference_mode()
def prove(source: Exportable, chosen: Chosen, folder: Path, exact: bool) -> Proof:
    """By the transformers library, from the one file."""
    transformers = library("transformers")
    transformers.logging.disable_progress_bar()
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that nothing else turns off
        tokenizer, model = (load(transformers, folder, chosen) for load in (load_tokenizer, load_model))
    source.refuse_other_tokens(lambda text: tokenizer(text).input_ids)
    random, vocabulary = np.random.default_rng(0), chosen.config["vocab_size"]
    rows = torch.from_numpy(random.integers(vocabulary, size=(4, min(source.length, 16))))
    difference = relative_difference(model(rows).logits, source.model(rows))
    how: dict[str, Any] = {"max_new_tokens": source.room, "do_sample": False, "pad_token_id": 0}

    def write(texts: list[str]) -> list[str]:
        rows = [tokenizer(text, return_tensors="pt") for text in texts]
        written = [model.generate(**row, **how)[0, row.input_ids.shape[1] :] for row in rows]
        return [tokenizer.decode(each, skip_special_tokens=True) for each in written]

    counts = source.compare_texts(write, exact, cut=False)
    return Proof(refuse_different("the model", difference) if exact else difference, *counts)


def load_tokenizer(transformers: Any, folder: Path, chosen: Chosen) -> Any:
    return transformers.AutoTokenizer.from_pretrained(
        folder, gguf_file=FILE, split_special_tokens=True, trust_remote_code=False, local_files_only=True
    )


def load_model(transformers: Any, folder: Path, chosen: Chosen) -> Any:
    """That library takes two of a GPT-2's sizes for granted."""
    names = ("n_positions", "n_inner")
    sizes = {name: chosen.config[name] for name in names if chosen.config.get(name) is not None}
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=FILE, use_safetensors=True, trust_remote_code=False, local_files_only=True, **sizes
    ).eval()
