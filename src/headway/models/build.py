"""From a recipe's words to a model. ``length`` is the longest sequence that positions will be learned for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from headway.config.parts import choose, is_path, part
from headway.config.recipe import ModelSpec
from headway.models.decoder import Decoder, PrefixDecoder
from headway.models.encoder import Encoder
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.heads import HEADS, Classifier
from headway.models.masked_lm import Detector, MaskedModel, NextModel
from headway.models.stack import Stack
from headway.nn.attend import ATTENTION_FUNCTIONS
from headway.nn.attention import CrossAttention
from headway.nn.block import PLACEMENTS, Block, PreNorm
from headway.nn.embedding import EMBEDDINGS, Embedding
from headway.nn.feedforward import FEEDFORWARDS
from headway.nn.init import INITS
from headway.nn.lora import adapt
from headway.nn.mixers import MIXERS
from headway.nn.norms import NORMS, NoNorm
from headway.nn.pooling import POOLINGS
from headway.nn.positions import POSITIONS


def build_encoder(spec: ModelSpec, vocabulary: int, length: int) -> Encoder:
    return Encoder(embedding(spec, vocabulary), stack(spec, length, block), spec.token_dropout, spec.causal)


def build_decoder(spec: ModelSpec, vocabulary: int, length: int, kind: type[Decoder] = Decoder) -> Decoder:
    tokens = embedding(spec, vocabulary)
    return kind(tokens, stack(spec, length, block), head(spec, tokens))


def build_prefix(spec: ModelSpec, vocabulary: int, length: int) -> Decoder:
    return build_decoder(spec, vocabulary, length, PrefixDecoder)


def build_decoder_and_reference(
    spec: ModelSpec, vocabulary: int, length: int, rank: int | None
) -> tuple[Decoder, Decoder | None]:
    """A decoder, and one to begin with the same weights and keep them; none, if it has adapters of this ``rank``."""
    decoder = build_decoder(spec, vocabulary, length)
    return (decoder, build_decoder(spec, vocabulary, length)) if rank is None else (adapt(decoder, rank), None)


def build_encoder_decoder(
    spec: ModelSpec, source: int, target: int, length: int, joint: bool = False
) -> EncoderDecoder:
    """``source`` and ``target`` are the sizes of the two vocabularies; ``joint`` says that they are one, so that an
    embedding may serve both."""
    tokens = embedding(spec, target)
    decoder = Decoder(tokens, stack(spec, length, block_with_cross), head(spec, tokens))
    layers = spec.layers if spec.encoder_layers is None else spec.encoder_layers
    mixer, position = spec.encoder_mixer or spec.mixer, spec.encoder_position or spec.position
    encoders = replace(spec, layers=layers, mixer=mixer, position=position)
    own = tokens if joint and spec.shared else embedding(spec, source)
    return EncoderDecoder(Encoder(own, stack(encoders, length, block), spec.token_dropout), decoder)


def build_classifier(spec: ModelSpec, vocabulary: int, length: int, classes: int) -> Classifier:
    pooling = part(POOLINGS, spec.pooling, "model.pooling", width=spec.width)
    last = nn.Linear(spec.width, classes)
    nn.init.zeros_(last.weight)  # all classes start alike, so that the first loss is ln(classes)
    nn.init.zeros_(last.bias)
    return Classifier(build_encoder(spec, vocabulary, length), pooling, last, spec.head_dropout)


def build_masked(spec: ModelSpec, vocabulary: int, length: int) -> MaskedModel:
    encoder = build_encoder(spec, vocabulary, length)
    return MaskedModel(encoder, head(spec, encoder.embedding))


def build_next(spec: ModelSpec, vocabulary: int, length: int) -> NextModel:
    encoder = build_encoder(spec, vocabulary, length)
    return NextModel(encoder, head(spec, encoder.embedding), spec.width)


def build_detector(spec: ModelSpec, vocabulary: int, length: int, layers: int) -> Detector:
    """The generator has so many layers of its own, and the encoder's embedding."""
    encoder = build_encoder(spec, vocabulary, length)
    small = Encoder(encoder.embedding, stack(replace(spec, layers=layers), length, block))
    return Detector(encoder, MaskedModel(small, head(spec, encoder.embedding)), spec.width)


def stack(spec: ModelSpec, length: int, block: Callable[[ModelSpec], Block]) -> Stack:
    sizes = {"width": spec.width, "heads": spec.heads, "head_width": spec.width // spec.heads}
    position = part(POSITIONS, spec.position, "model.position", {"length": length}, **sizes)
    # With the norms before the sublayers, nothing would normalise what the last of them adds.
    last = norm(spec) if choose(PLACEMENTS, spec.norm, "model.norm") is PreNorm else NoNorm()
    first = norm(spec) if spec.embedding_norm else NoNorm()
    made = Stack([block(spec) for _ in range(spec.layers)], position, last, spec.dropout, first)
    part(INITS, spec.init, "model.init", stack=made, layers=spec.layers)
    return made


def block(spec: ModelSpec) -> Block:
    return make_block(spec, mixer=mixer(spec), feedforward=feedforward(spec))


def block_with_cross(spec: ModelSpec) -> Block:
    cross = CrossAttention(**attention_options(spec))
    return make_block(spec, mixer=mixer(spec), cross=cross, feedforward=feedforward(spec))


def make_block(spec: ModelSpec, **sublayers: nn.Module | None) -> Block:
    return Block(**{name: residual(spec, each) for name, each in sublayers.items() if each is not None})


def embedding(spec: ModelSpec, vocabulary: int) -> Embedding:
    """One that begins with word vectors (headway.runs.word_vectors) is a lookup."""
    kind = "lookup" if is_path(spec.embedding) else spec.embedding
    return part(EMBEDDINGS, kind, "model.embedding", vocabulary=vocabulary, width=spec.width)


def head(spec: ModelSpec, tokens: Embedding) -> nn.Module:
    return part(HEADS, spec.head, "model.head", embedding=tokens, width=spec.width)


def mixer(spec: ModelSpec) -> nn.Module:
    return part(MIXERS, spec.mixer, "model.mixer", **attention_options(spec))


def attention_options(spec: ModelSpec) -> dict[str, Any]:
    return {
        "width": spec.width,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "qk_norm": lambda width: part(NORMS, spec.qk_norm, "model.qk_norm", width=width),
        "attention_function": choose(ATTENTION_FUNCTIONS, spec.attention, "model.attention"),
        "dropout": spec.attention_dropout,
        "bias": spec.bias,
    }


def feedforward(spec: ModelSpec) -> nn.Module | None:
    hidden = spec.hidden or 4 * spec.width
    sizes: dict[str, Any] = {"width": spec.width, "hidden": hidden, "bias": spec.bias}
    return part(FEEDFORWARDS, spec.feedforward, "model.feedforward", **sizes)


def residual(spec: ModelSpec, sublayer: nn.Module) -> nn.Module:
    return part(PLACEMENTS, spec.norm, "model.norm", sublayer=sublayer, norm=norm(spec), dropout=spec.dropout)


def norm(spec: ModelSpec) -> nn.Module:
    return part(NORMS, spec.norm_kind, "model.norm_kind", width=spec.width)
