"""Export a run to CTranslate2 (https://opennmt.net/CTranslate2), an engine that translates and generates fast on CPUs.

It knows more parts than one family of models: pre- and post-norm, several activations and positions. Its own
specification is filled with our numbers; torch is not needed to run it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as Core
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.config.imports import library
from headway.config.parts import parse
from headway.config.recipe import ModelSpec
from headway.interop.exportable import Exportable, Proof
from headway.interop.programs import refuse_different, relative_difference
from headway.models import Decoder, EncoderDecoder
from headway.models.heads import OwnHead, TiedHead
from headway.models.stack import Stack
from headway.nn.attention import CrossAttention

ACTIVATIONS = {  # by the name in a recipe: the engine's, and whether it is gated
    "relu": ("RELU", False),
    "gelu": ("GELU", False),
    "silu": ("SWISH", False),
    "swiglu": ("SWISH", True),
    "geglu": ("GELUTanh", True),
}
POSITIONS = ("none", "sinusoidal", "learned", "rotary")
FITTING = {  # what the engine has, by setting
    "mixer": ("attention",),
    "encoder_mixer": (None, "attention"),
    "attention": ("soft",),
    "qk_norm": ("none",),
    "norm": ("pre", "post"),
    "norm_kind": ("layernorm", "rmsnorm"),
    "embedding": ("lookup", "onehot"),
    "position": POSITIONS,
    "encoder_position": (None, *POSITIONS),
    "feedforward": tuple(ACTIVATIONS),
    "head": ("tied", "own"),
}


def write_ctranslate2(source: Exportable, folder: Path, int8: bool = False) -> tuple[str, Proof]:
    library("ctranslate2", "ctranslate2")
    refuse_misfits(source)
    spec: Any = translator_spec(source) if source.translator else generator_spec(source)
    spec.config.layer_norm_epsilon = epsilon(source.run.recipe.model)
    spec.validate()
    spec.optimize(quantization="int8" if int8 else None)
    spec.save(str(folder))
    for name, framing in source.framings.items():
        (folder / f"{name}.json").write_text(framing.to_json(), encoding="utf-8")
    kind = "translator for CTranslate2" if source.translator else "generator for CTranslate2"
    return kind, prove(source, folder, not int8)


def refuse_misfits(source: Exportable) -> None:
    """Name all of them at once."""
    spec, model = source.run.recipe.model, source.model
    if source.generator is None or type(model) not in (Decoder, EncoderDecoder):
        raise Problem(f"{source.run.folder}: CTranslate2 runs translators and language models: export it to onnx")
    misfits = []
    for key, known in FITTING.items():
        value = getattr(spec, key)
        name = value if value is None else parse(value, f"model.{key}")[0]
        if name not in known:
            misfits.append(f"model.{key}={' or '.join(str(each) for each in known if each)}")
    if source.translator is not None and spec.kv_heads not in (None, spec.heads):
        misfits.append("model.kv_heads=none")
    if misfits:
        raise Problem(f"CTranslate2 has no such model: it needs {', '.join(misfits)}")


def epsilon(spec: ModelSpec) -> float:
    name, options = parse(spec.norm_kind, "model.norm_kind")
    return float(options.get("eps", 1e-6 if name == "rmsnorm" else 1e-5))


def options_of(spec: ModelSpec) -> dict[str, Any]:
    specs = library("ctranslate2.specs", "ctranslate2")
    name, options = parse(spec.feedforward, "model.feedforward")
    activation, gated = ACTIVATIONS[name]
    if name == "gelu" and options.get("tanh"):
        activation = "GELUTanh"
    return {
        "pre_norm": spec.norm == "pre",
        "activation": specs.common_spec.Activation[activation],
        "layernorm_embedding": spec.embedding_norm,
        "ffn_glu": gated,
        "rms_norm": parse(spec.norm_kind, "model.norm_kind")[0] == "rmsnorm",
        "num_heads_kv": None if spec.kv_heads in (None, spec.heads) else spec.kv_heads,
    }


def turning(position: str) -> dict[str, Any]:
    """Rotary positions: of all dimensions of a head, in two halves."""
    name, options = parse(position, "model.position")
    if name != "rotary":
        return {}
    return {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": float(options.get("base", 10_000.0))}


def translator_spec(source: Exportable) -> Any:
    specs, ours, model = library("ctranslate2.specs", "ctranslate2"), source.run.recipe.model, source.model
    transformer, translator = specs.transformer_spec, source.translator
    assert translator is not None
    layers = ours.layers if ours.encoder_layers is None else ours.encoder_layers
    options = options_of(ours)
    encoder = transformer.TransformerEncoderSpec(
        layers, ours.heads, **options, **turning(ours.encoder_position or ours.position)
    )
    decoder = transformer.TransformerDecoderSpec(ours.layers, ours.heads, **options, **turning(ours.position))
    spec = transformer.TransformerSpec(encoder, decoder)
    fill_side(spec.encoder, spec.encoder.embeddings[0], model.encoder, translator.longest)
    fill_decoder(spec.decoder, model.decoder, translator.longest)
    symbols = translator.tokenizer.vocabulary.symbols
    spec.register_source_vocabulary(translator.source.vocabulary.symbols)
    spec.register_target_vocabulary(symbols)
    spec.config.add_source_eos = False  # the tokenizer does
    spec.config.decoder_start_token = spec.config.bos_token = symbols[translator.bos or 0]
    spec.config.eos_token = symbols[translator.eos or 0]
    return spec


def generator_spec(source: Exportable) -> Any:
    specs, ours, writer = library("ctranslate2.specs", "ctranslate2"), source.run.recipe.model, source.generator
    assert writer is not None
    spec = specs.transformer_spec.TransformerDecoderModelSpec.from_config(
        ours.layers, ours.heads, **options_of(ours), **turning(ours.position)
    )
    fill_decoder(spec.decoder, source.model, writer.window or source.length)
    symbols = writer.tokenizer.vocabulary.symbols
    spec.register_vocabulary(symbols)
    # One without an end ends with padding, which it never writes.
    spec.config.eos_token = symbols[writer.eos if writer.eos is not None else 0]
    spec.config.bos_token = symbols[writer.bos] if writer.bos is not None else spec.config.eos_token
    return spec


def fill_side(spec: Any, embeddings: Any, side: Any, length: int) -> None:
    """Embedding, positions and blocks of an encoder or a decoder."""
    stack: Stack = side.stack
    spec.scale_embeddings = False
    embeddings.weight = array(side.embedding.table.weight[: side.embedding.vocabulary] * side.embedding.scale)
    if "rotary_dim" in vars(spec.layer[0].self_attention):
        vars(spec).pop("position_encodings", None)
    else:
        places = torch.arange(int(stack.position.length or length))
        zeros = torch.zeros(1, len(places), side.embedding.width)
        spec.position_encodings.encodings = array(stack.position.embed(zeros, places)[0])
    if hasattr(spec, "layernorm_embedding"):
        fill_norm(spec.layernorm_embedding, stack.first_norm, side.embedding.width)
    if hasattr(spec, "layer_norm"):
        fill_norm(spec.layer_norm, stack.norm, side.embedding.width)
    blocks: Any = stack.blocks
    for layer, block in zip(spec.layer, blocks, strict=True):
        fill_attention(layer.self_attention, block["mixer"])
        if "cross" in block:
            fill_attention(layer.attention, block["cross"])
        inner, feedforward = block["feedforward"].sublayer, layer.ffn
        fill_norm(feedforward.layer_norm, block["feedforward"].norm, side.embedding.width)
        if hasattr(feedforward, "linear_0_noact"):
            gate, up = (rows_of(inner.inner, part) for part in (0, 1))
            fill_linear(feedforward.linear_0, *gate)
            fill_linear(feedforward.linear_0_noact, *up)
        else:
            fill_linear(feedforward.linear_0, inner.inner.weight, inner.inner.bias)
        fill_linear(feedforward.linear_1, inner.outer.weight, inner.outer.bias)


def fill_decoder(spec: Any, decoder: Any, length: int) -> None:
    fill_side(spec, spec.embeddings, decoder, length)
    head: TiedHead | OwnHead = decoder.head
    matrix = head.embedding.table.weight[: head.embedding.vocabulary] if isinstance(head, TiedHead) else head.weight
    fill_linear(spec.projection, matrix, head.bias)


def fill_attention(spec: Any, residual: Any) -> None:
    attention = residual.sublayer
    width = attention.output.in_features
    fill_norm(spec.layer_norm, residual.norm, width)
    if isinstance(attention, CrossAttention):
        fill_linear(spec.linear[0], attention.query.weight, attention.query.bias)
        both = torch.cat([attention.key.weight, attention.value.weight])
        bias = None if attention.key.bias is None else torch.cat([attention.key.bias, attention.value.bias])
        fill_linear(spec.linear[1], both, bias)
    else:
        fill_linear(spec.linear[0], attention.project.weight, attention.project.bias)
    fill_linear(spec.linear[-1], attention.output.weight, attention.output.bias)


def rows_of(linear: nn.Linear, part: int) -> tuple[Tensor, Tensor | None]:
    """The first or the second half of its outputs."""
    return linear.weight.chunk(2)[part], None if linear.bias is None else linear.bias.chunk(2)[part]


def fill_norm(spec: Any, norm: Any, width: int) -> None:
    spec.gamma = array(torch.ones(width) if norm.weight is None else norm.weight)
    if "beta" in vars(spec):
        bias = getattr(norm, "bias", None)
        spec.beta = array(torch.zeros(width) if bias is None else bias)


def fill_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = array(weight)
    if bias is not None:
        spec.bias = array(bias)


def array(tensor: Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().float().numpy())


# --- using it


class Engine:
    """An export in its own engine: texts in, texts out."""

    def __init__(self, folder: Path, source: Exportable):
        ctranslate2 = library("ctranslate2", "ctranslate2")
        self.source = source
        cores = [Core.from_file(str(folder / f"{name}.json")) for name in source.framings]
        self.reads, self.writes = cores[0], cores[-1]
        kind = ctranslate2.Translator if source.translator else ctranslate2.Generator
        self.model = kind(str(folder), device="cpu", intra_threads=torch.get_num_threads())

    def tokens(self, text: str, first: tuple[int, ...] = ()) -> list[str]:
        symbols = [self.source.framing.tokenizer.vocabulary.symbols[token] for token in first]
        return [*symbols, *self.reads.encode(text).tokens]

    def translate(
        self, texts: list[str], beams: int, penalty: float, first: tuple[int, ...] = (), limit: int | None = None
    ) -> list[str]:
        rows = [self.tokens(text, first) for text in texts]
        how = {"beam_size": beams, "length_penalty": penalty, "max_decoding_length": limit or self.source.limit}
        results = self.model.translate_batch(rows, **how, max_batch_size=2048, batch_type="tokens")
        return [self.text_of(result.hypotheses[0]) for result in results]

    def continue_greedily(self, texts: list[str], max_new_tokens: int) -> list[str]:
        rows = [self.tokens(text) for text in texts]
        how = {"beam_size": 1, "sampling_topk": 1, "max_length": max_new_tokens, "include_prompt_in_result": False}
        return [self.text_of(result.sequences[0]) for result in self.model.generate_batch(rows, **how)]

    def text_of(self, symbols: list[str]) -> str:
        special = self.source.framing.special
        index = self.writes.get_vocab()
        return self.writes.decode([index[each] for each in symbols if each not in special])


def prove(source: Exportable, folder: Path, exact: bool) -> Proof:
    engine, translator = Engine(folder, source), source.translator
    source.refuse_other_tokens(lambda text: engine.reads.encode(text).ids)
    if translator is not None:
        first = (next(iter(translator.tags.values())),) if len(translator.tags) > 1 else ()
        beam = translator.beam
        difference = difference_of_scores(source, engine)
        counts = source.compare_texts(
            lambda texts: engine.translate(texts, beam.width, beam.length_penalty, first, source.room), exact
        )
    else:
        difference = difference_of_logits(source, engine)
        counts = source.compare_texts(lambda texts: engine.continue_greedily(texts, source.room), exact, cut=False)
    return Proof(refuse_different("the model", difference) if exact else difference, *counts)


def random_rows(size: int, special: np.ndarray, length: int) -> np.ndarray:
    return np.random.default_rng(0).choice(np.flatnonzero(~special), (4, length))


@torch.inference_mode()
def difference_of_logits(source: Exportable, engine: Engine) -> float:
    """Of a language model, on random tokens."""
    tokenizer = source.framing.tokenizer
    length = min(source.length, 16)
    rows = random_rows(len(tokenizer), tokenizer.is_special, length)
    ours = source.model(torch.from_numpy(rows))
    theirs = torch.from_numpy(np.array(engine.model.forward_batch(rows.tolist())))
    return relative_difference(theirs, ours)


@torch.inference_mode()
def difference_of_scores(source: Exportable, engine: Engine) -> float:
    """Of a translator: the log-probabilities of random translations of random sources."""
    translator = source.translator
    assert translator is not None
    reads, writes, length = translator.source, translator.tokenizer, min(translator.longest - 2, 12)
    sources, targets = (random_rows(len(each), each.is_special, length) for each in (reads, writes))
    given = np.concatenate([np.full((len(targets), 1), translator.bos or 0), targets], axis=1)
    logits = source.model(torch.from_numpy(sources), torch.from_numpy(given)).log_softmax(dim=-1)
    ends = np.concatenate([targets, np.full((len(targets), 1), translator.eos or 0)], axis=1)
    ours = logits.gather(2, torch.from_numpy(ends)[..., None])[..., 0]
    texts = [
        [[each.vocabulary.symbols[token] for token in row] for row in rows]
        for each, rows in ((reads, sources.tolist()), (writes, targets.tolist()))
    ]
    theirs = torch.tensor([result.log_probs for result in engine.model.score_batch(*texts)])
    return relative_difference(theirs, ours)
