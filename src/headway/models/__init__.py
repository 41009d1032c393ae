"""Models: assembled from parts by hand, or built from a ``ModelSpec``."""

from headway.config.recipe import ModelSpec
from headway.models.build import build_classifier, build_decoder, build_encoder, build_encoder_decoder
from headway.models.decoder import Decoder
from headway.models.encoder import Classifier, Encoder
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.heads import TiedHead
from headway.models.stack import Stack

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
