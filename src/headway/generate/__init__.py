"""Writing: from the scores of a next token to texts. Nothing here knows a model, only its steps."""

from headway.generate.beam import Beam, Found, beam_search
from headway.generate.exact import exact_search
from headway.generate.sample import Sampling, sample
from headway.generate.steps import Memory, Steps
from headway.generate.tree import Tree

__all__ = ["Beam", "Found", "Memory", "Sampling", "Steps", "Tree", "beam_search", "exact_search", "sample"]
