"""Build models from the settings of a recipe. ``length`` is the maximum length for learned positions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from headway.config.parts import choose, is_path, part
from headway.config.recipe import ModelSpec
from headway.models.decoder import Decoder, PrefixDecoder
from headway.models.encoder import Classifier, Encoder
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.heads import HEADS
from headway.models.masked_lm import Detector, MaskedModel, NextModel
from headway.models.stack import Stack
from headway.models.tagger import Tagger
from headway.nn.attend import ATTENTION_FUNCTIONS
from headway.nn.attention import CrossAttention
from headway.nn.block import NORMS, PLACEMENTS, Block, NoNorm, PreNorm, as_sublayer
from headway.nn.characters import CHARACTERS
from headway.nn.crf import TAG_HEADS, LinearTags
from headway.nn.embedding import EMBEDDINGS, Embedding
from headway.nn.feedforward import FEEDFORWARDS
from headway.nn.init import INITS
from headway.nn.lora import add_lora
from headway.nn.pooling import POOLINGS
from headway.nn.positions import POSITIONS, Position
from headway.nn.recurrent import MIXERS


def build_encoder(spec: ModelSpec, vocabulary: int, length: int) -> Encoder:
    return Encoder(embedding(spec, vocabulary), stack(spec, length, block), spec.token_dropout, spec.causal)


def build_decoder(spec: ModelSpec, vocabulary: int, length: int, kind: type[Decoder] = Decoder) -> Decoder:
    tokens = embedding(spec, vocabulary)
    return kind(tokens, stack(spec, length, block), head(spec, tokens))


def build_prefix(spec: ModelSpec, vocabulary: int, length: int) -> Decoder:
    return build_decoder(spec, vocabulary, length, PrefixDecoder)


def build_decoder_and_reference(
    spec: ModelSpec, vocabulary: int, length: int, lora_rank: int | None
) -> tuple[Decoder, Decoder | None]:
    """A decoder and a reference model. With LoRA there is no second model: the frozen weights are the reference."""
    decoder = build_decoder(spec, vocabulary, length)
    if lora_rank is not None:
        return add_lora(decoder, lora_rank), None
    return decoder, build_decoder(spec, vocabulary, length)


def build_encoder_decoder(
    spec: ModelSpec, source: int, target: int, length: int, joint: bool = False
) -> EncoderDecoder:
    """``source`` and ``target`` are the vocabulary sizes. With a ``joint`` vocabulary, both sides may share the
    embedding."""
    tokens = embedding(spec, target)
    decoder = Decoder(tokens, stack(spec, length, block_with_cross), head(spec, tokens))
    layers = spec.layers if spec.encoder_layers is None else spec.encoder_layers
    mixer, position = spec.encoder_mixer or spec.mixer, spec.encoder_position or spec.position
    encoder_spec = replace(spec, layers=layers, mixer=mixer, position=position)
    source_tokens = tokens if joint and spec.shared else embedding(spec, source)
    return EncoderDecoder(Encoder(source_tokens, stack(encoder_spec, length, block), spec.token_dropout), decoder)


def build_classifier(spec: ModelSpec, vocabulary: int, length: int, classes: int) -> Classifier:
    pooling = part(POOLINGS, spec.pooling, "model.pooling", kind=nn.Module, width=spec.width)
    last = nn.Linear(spec.width, classes)
    nn.init.zeros_(last.weight)  # all classes start equally likely: the first loss is ln(classes)
    nn.init.zeros_(last.bias)
    return Classifier(build_encoder(spec, vocabulary, length), pooling, last, spec.head_dropout)


def build_tagger(spec: ModelSpec, vocabulary: int, length: int, tags: int, allowed: Tensor | None = None) -> Tagger:
    """``allowed`` (tags + 1, tags + 1): which tags may follow each other; see nn/crf."""
    sizes: dict[str, Any] = {"width": spec.width, "tags": tags, "allowed": allowed}
    head = part(TAG_HEADS, spec.tag_head, "model.tag_head", kind=LinearTags, **sizes)
    characters = part(CHARACTERS, spec.characters, "model.characters", width=spec.width)
    return Tagger(build_encoder(spec, vocabulary, length), characters, head, spec.head_dropout)


def build_masked(spec: ModelSpec, vocabulary: int, length: int) -> MaskedModel:
    encoder = build_encoder(spec, vocabulary, length)
    return MaskedModel(encoder, head(spec, encoder.embedding))


def build_next(spec: ModelSpec, vocabulary: int, length: int) -> NextModel:
    encoder = build_encoder(spec, vocabulary, length)
    return NextModel(encoder, head(spec, encoder.embedding), spec.width)


def build_detector(spec: ModelSpec, vocabulary: int, length: int, layers: int) -> Detector:
    """ELECTRA: the generator has ``layers`` layers and shares the encoder's embedding."""
    encoder = build_encoder(spec, vocabulary, length)
    small = Encoder(encoder.embedding, stack(replace(spec, layers=layers), length, block))
    return Detector(encoder, MaskedModel(small, head(spec, encoder.embedding)), spec.width)


def stack(spec: ModelSpec, length: int, block: Callable[[ModelSpec], Block]) -> Stack:
    sizes = {"width": spec.width, "heads": spec.heads, "head_width": spec.width // spec.heads}
    position = part(POSITIONS, spec.position, "model.position", {"length": length}, Position, **sizes)
    # With pre-norm, nothing else would normalise the output of the last sublayer.
    last = norm(spec) if choose(PLACEMENTS, spec.norm, "model.norm") is PreNorm else NoNorm()
    first = norm(spec) if spec.embedding_norm else NoNorm()
    whole = Stack([block(spec) for _ in range(spec.layers)], position, last, spec.dropout, first)
    part(INITS, spec.init, "model.init", stack=whole, layers=spec.layers)
    return whole


def block(spec: ModelSpec) -> Block:
    return make_block(spec, mixer=mixer(spec), feedforward=feedforward(spec))


def block_with_cross(spec: ModelSpec) -> Block:
    cross = CrossAttention(**attention_options(spec))
    return make_block(spec, mixer=mixer(spec), cross=cross, feedforward=feedforward(spec))


def make_block(spec: ModelSpec, **sublayers: nn.Module | None) -> Block:
    named = {name: as_sublayer(sublayer) for name, sublayer in sublayers.items() if sublayer is not None}
    return Block(**{name: residual(spec, sublayer) for name, sublayer in named.items()})


def embedding(spec: ModelSpec, vocabulary: int) -> Embedding:
    """A path to word vectors means a lookup embedding, filled later by headway.runs.word_vectors."""
    kind = "lookup" if is_path(spec.embedding) else spec.embedding
    return part(EMBEDDINGS, kind, "model.embedding", kind=Embedding, vocabulary=vocabulary, width=spec.width)


def head(spec: ModelSpec, tokens: Embedding) -> nn.Module:
    return part(HEADS, spec.head, "model.head", kind=nn.Module, embedding=tokens, width=spec.width)


def mixer(spec: ModelSpec) -> nn.Module:
    return part(MIXERS, spec.mixer, "model.mixer", **attention_options(spec))


def attention_options(spec: ModelSpec) -> dict[str, Any]:
    return {
        "width": spec.width,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "qk_norm": lambda width: part(NORMS, spec.qk_norm, "model.qk_norm", kind=nn.Module, width=width),
        "attention_function": choose(ATTENTION_FUNCTIONS, spec.attention, "model.attention"),
        "dropout": spec.attention_dropout,
        "bias": spec.bias,
    }


def feedforward(spec: ModelSpec) -> nn.Module | None:
    hidden = spec.hidden or 4 * spec.width
    sizes: dict[str, Any] = {"width": spec.width, "hidden": hidden, "bias": spec.bias}
    return part(FEEDFORWARDS, spec.feedforward, "model.feedforward", **sizes)


def residual(spec: ModelSpec, sublayer: nn.Module) -> nn.Module:
    return part(
        PLACEMENTS, spec.norm, "model.norm", kind=nn.Module, sublayer=sublayer, norm=norm(spec), dropout=spec.dropout
    )


def norm(spec: ModelSpec) -> nn.Module:
    return part(NORMS, spec.norm_kind, "model.norm_kind", kind=nn.Module, width=spec.width)
