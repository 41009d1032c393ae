"""Writing: from the scores of a next token to texts. Nothing here knows a model, only its steps."""

from headway.generation.beam import Beam, Hypothesis, beam_search
from headway.generation.decoder_step import DecoderStep, Memory
from headway.generation.exact import exact_search
from headway.generation.sampling import Sampling, sample
from headway.generation.tree import Tree

__all__ = ["Beam", "DecoderStep", "Hypothesis", "Memory", "Sampling", "Tree", "beam_search", "exact_search", "sample"]
