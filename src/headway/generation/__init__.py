"""Generation: sampling, beam search, exact search. They see a model only as a ``DecoderStep``."""

from headway.generation.beam import Beam, Hypothesis, beam_search
from headway.generation.decoder_step import DecoderStep
from headway.generation.exact import exact_search
from headway.generation.sampling import Sampling, sample
from headway.generation.tree import Tree

__all__ = ["Beam", "DecoderStep", "Hypothesis", "Sampling", "Tree", "beam_search", "exact_search", "sample"]
