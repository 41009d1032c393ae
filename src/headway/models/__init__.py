"""Models made of the parts: from parts by hand, or from a ``ModelSpec`` by the builders."""

from headway.models.build import build_classifier, build_decoder, build_encoder, build_encoder_decoder
from headway.models.decoder import Decoder
from headway.models.encoder import Encoder
from headway.models.heads import Classifier, TiedHead
from headway.models.seq2seq import EncoderDecoder
from headway.models.stack import Stack
from headway.recipe import ModelSpec

__all__ = [
    "Classifier",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "ModelSpec",
    "Stack",
    "TiedHead",
    "build_classifier",
    "build_decoder",
    "build_encoder",
    "build_encoder_decoder",
]
